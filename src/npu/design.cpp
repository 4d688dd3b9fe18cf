#include "npu/design.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::npu {
namespace {

template <typename Parts, typename Key>
auto* find_named(const Parts& parts, Key key, std::string_view name) {
    const auto at = std::find_if(parts.begin(), parts.end(), [&](const auto& part) { return part.*key == name; });
    return at == parts.end() ? nullptr : &*at;
}

}  // namespace

int64_t size_bytes(Element element) {
    switch (element) {
        case Element::i8:
        case Element::u8:
            return 1;
        case Element::i16:
        case Element::bf16:
            return 2;
        case Element::i32:
        case Element::f32:
            return 4;
    }
    CHECK(false, "no such element");
}

std::string_view name(Element element) {
    switch (element) {
        case Element::i8:
            return "i8";
        case Element::u8:
            return "u8";
        case Element::i16:
            return "i16";
        case Element::i32:
            return "i32";
        case Element::bf16:
            return "bf16";
        case Element::f32:
            return "f32";
    }
    CHECK(false, "no such element");
}

int64_t ObjectType::size_bytes() const {
    return count * npu::size_bytes(element);
}

int64_t elements(const Access& access) {
    int64_t product = 1;
    for (const AccessDim& dim : access) product *= dim.size;
    return product;
}

std::vector<Part> parts_at(const Design& design, const Fifo& fifo, bool producer) {
    for (const Link& link : design.links) {
        const std::vector<std::string>& whole = producer ? link.to : link.from;
        const std::vector<std::string>& parts = producer ? link.from : link.to;
        if (whole.size() != 1 || whole.front() != fifo.name || parts.size() < 2) continue;
        std::vector<Part> made;
        for (size_t i = 0; i < parts.size(); ++i) {
            const Fifo* const part = find_fifo(design, parts[i]);
            CHECK(part != nullptr && i < link.offsets.size(), "the link was not checked");
            made.push_back({link.offsets[i], part->object.count});
        }
        return made;
    }
    return {{0, fifo.object.count}};
}

const Fifo* find_fifo(const Design& design, std::string_view name) {
    return find_named(design.fifos, &Fifo::name, name);
}

const KernelUse* find_kernel_use(const Design& design, std::string_view symbol) {
    return find_named(design.kernels, &KernelUse::symbol, symbol);
}

const LocalBuffer* find_buffer(const Worker& worker, std::string_view name) {
    return find_named(worker.buffers, &LocalBuffer::name, name);
}

}  // namespace tandem::npu
