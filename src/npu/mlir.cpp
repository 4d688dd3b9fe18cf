#include "npu/mlir.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "npu/access.h"
#include "npu/array.h"
#include "npu/host_schedule.h"

namespace tandem::npu {
namespace {

constexpr int kProduce = 0;
constexpr int kConsume = 1;

// MLIR's integers have no sign.
std::string_view element_type(Element element) {
    return element == Element::u8 ? "i8" : name(element);
}

std::string memref(const ObjectType& type) {
    return fmt::format("memref<{}x{}>", type.count, element_type(type.element));
}

std::string tile_name(Tile tile) {
    return fmt::format("%tile_{}_{}", tile.column, tile.row);
}

// As the enumeration of devices in the dialect has them.
int device_number(std::string_view array) {
    return array == "npu1" ? 4 : 8;
}

std::string dimensions(const Access& access) {
    std::string text;
    for (const AccessDim& dim : compact(access))
        text += fmt::format("{}<size = {}, stride = {}>", text.empty() ? "" : ", ", dim.size, dim.stride);
    return "[" + text + "]";
}

template <typename Parts, typename ToText>
std::string joined(const Parts& parts, ToText text) {
    std::string all;
    for (const auto& part : parts) all += (all.empty() ? "" : ", ") + text(part);
    return all;
}

std::string symbols(const std::vector<std::string>& names) {
    return joined(names, [](const std::string& name) { return "@" + name; });
}

// The FIFOs of which the statements acquire or release objects.
void add_touched(const std::vector<Statement>& body, std::set<std::string>& touched) {
    for (const Statement& statement : body) {
        if (const auto* acquire = std::get_if<Acquire>(&statement)) touched.insert(acquire->fifo);
        if (const auto* release = std::get_if<Release>(&statement)) touched.insert(release->fifo);
        if (const auto* loop = std::get_if<Loop>(&statement)) add_touched(loop->body, touched);
    }
}

class MlirText {
  public:
    template <typename... Args>
    void line(fmt::format_string<Args...> format, Args&&... args) {
        text_.append(2 * static_cast<size_t>(depth_), ' ');
        fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
        text_ += '\n';
    }
    void open() { ++depth_; }
    void close() { --depth_; }
    std::string value() { return fmt::format("%v{}", values_++); }  // a new SSA value
    std::string take() { return std::move(text_); }

  private:
    std::string text_;
    int depth_ = 0;
    int values_ = 0;
};

bool has_counter(const std::vector<Statement>& body) {
    return std::any_of(body.begin(), body.end(), [](const Statement& statement) {
        const auto* loop = std::get_if<Loop>(&statement);
        return loop != nullptr && (!loop->counter.empty() || has_counter(loop->body));
    });
}

// The core of a worker. An acquire of the dialect names how many objects are held in all, and what it yields gives
// access to these, the oldest first; that some of them were released is followed by the compiler.
class CoreText {
  public:
    CoreText(const Design& design, const Worker& worker, MlirText& text)
        : design_(design), worker_(worker), text_(text) {}

    void write() {
        for (const LocalBuffer& buffer : worker_.buffers)
            text_.line("{} = \"aie.buffer\"({}) <{{sym_name = \"{}\"}}> : (index) -> {}", buffer_value(buffer.name),
                       tile_name(worker_.tile), buffer_value(buffer.name).substr(1), memref(buffer.type));
        // Objects are counted while the core runs where a loop's rounds are not known before.
        text_.line("{} = \"aie.core\"({}) <{{{}stack_size = {} : i32}}> ({{", text_.value(), tile_name(worker_.tile),
                   has_counter(worker_.body) ? "dynamic_objfifo_lowering = true, " : "", worker_.stack_bytes);
        text_.open();
        write_loop({.count = std::numeric_limits<int64_t>::max(), .body = worker_.body});
        text_.line("\"aie.end\"() : () -> ()");
        text_.close();
        text_.line("}}) : (index) -> index");
    }

  private:
    struct Held {
        int64_t count = 0;
        std::string view;  // of the last acquire; empty: there is none to use here
    };

    std::string buffer_value(const std::string& name) const {
        return fmt::format("%{}_{}_{}", name, worker_.tile.column, worker_.tile.row);
    }

    std::string constant(int64_t number, std::string_view type) {
        std::string value = text_.value();
        text_.line("{} = \"arith.constant\"() <{{value = {} : {}}}> : () -> {}", value, number, type, type);
        return value;
    }

    std::string rounds(const Loop& loop, const std::string& first) {
        if (loop.counter.empty()) return constant(loop.count, "index");
        const ObjectType& type = find_buffer(worker_, loop.counter)->type;
        const std::string number = text_.value();
        std::string count = text_.value();
        text_.line("{} = \"memref.load\"({}, {}) : ({}, index) -> i32", number, buffer_value(loop.counter), first,
                   memref(type));
        text_.line("{} = \"arith.index_cast\"({}) : (i32) -> index", count, number);
        return count;
    }

    void write_loop(const Loop& loop) {
        std::set<std::string> touched;
        add_touched(loop.body, touched);
        const std::string first = constant(0, "index");
        const std::string last = rounds(loop, first);
        const std::string step = constant(1, "index");
        text_.line("\"scf.for\"({}, {}, {}) ({{", first, last, step);
        text_.line("^bb0({}: index):", text_.value());
        text_.open();
        forget_views(touched);  // from the second round on, they are of other objects
        for (const Statement& statement : loop.body) write_statement(statement);
        text_.line("\"scf.yield\"() : () -> ()");
        text_.close();
        text_.line("}}) : (index, index, index) -> ()");
        forget_views(touched);
    }

    void forget_views(const std::set<std::string>& fifos) {
        for (const std::string& fifo : fifos) held_[fifo].view.clear();
    }

    void write_statement(const Statement& statement) {
        if (const auto* acquire = std::get_if<Acquire>(&statement)) {
            held_[acquire->fifo].count += acquire->count;
            write_acquire(acquire->fifo);
        } else if (const auto* release = std::get_if<Release>(&statement)) {
            Held& held = held_[release->fifo];
            held.count -= release->count;
            text_.line(
                "\"aie.objectfifo.release\"() <{{objFifo_name = @{}, port = {} : i32, size = {} : i32}}> : () -> ()",
                release->fifo, port(release->fifo), release->count);
        } else if (const auto* call = std::get_if<Call>(&statement)) {
            write_call(*call);
        } else {
            write_loop(std::get<Loop>(statement));
        }
    }

    int port(const std::string& fifo) const {
        return find_fifo(design_, fifo)->producer == worker_.tile ? kProduce : kConsume;
    }

    std::string view_type(const std::string& fifo) const {
        return fmt::format("!aie.objectfifosubview<{}>", memref(find_fifo(design_, fifo)->object));
    }

    void write_acquire(const std::string& fifo) {
        Held& held = held_[fifo];
        held.view = text_.value();
        text_.line(
            "{} = \"aie.objectfifo.acquire\"() <{{objFifo_name = @{}, port = {} : i32, size = {} : i32}}> : () -> {}",
            held.view, fifo, port(fifo), held.count, view_type(fifo));
    }

    void write_call(const Call& call) {
        const KernelUse* kernel = find_kernel_use(design_, call.kernel);
        CHECK(kernel != nullptr, "a call of no kernel");
        std::string values;
        std::string types;
        for (size_t i = 0; i < call.arguments.size(); ++i) {
            const KernelUse::Argument& taken = kernel->arguments[i];
            const auto* number = std::get_if<int32_t>(&call.arguments[i]);
            values += i == 0 ? "" : ", ";
            types += i == 0 ? "" : ", ";
            values += number != nullptr ? constant(*number, "i32") : argument_value(call.arguments[i], taken.buffer);
            types += number != nullptr ? "i32" : memref(taken.buffer);
        }
        text_.line("\"func.call\"({}) <{{callee = @{}}}> : ({}) -> ()", values, call.kernel, types);
    }

    template <typename Argument>
    std::string argument_value(const Argument& argument, const ObjectType& taken) {
        if (const auto* local = std::get_if<BufferArgument>(&argument))
            return narrowed(buffer_value(local->buffer), find_buffer(worker_, local->buffer)->type, taken);
        const auto& object = std::get<ObjectArgument>(argument);
        Held& held = held_[object.fifo];
        if (held.view.empty()) write_acquire(object.fifo);
        const ObjectType& type = find_fifo(design_, object.fifo)->object;
        std::string value = text_.value();
        text_.line("{} = \"aie.objectfifo.subview.access\"({}) <{{index = {} : i32}}> : ({}) -> {}", value, held.view,
                   object.object, view_type(object.fifo), memref(type));
        return narrowed(std::move(value), type, taken);
    }

    // A kernel that takes less than there is gets the front of it.
    std::string narrowed(std::string value, const ObjectType& given, const ObjectType& taken) {
        if (given.count == taken.count) return value;
        const std::string part = text_.value();
        const std::string type = fmt::format("memref<{}x{}, strided<[1]>>", taken.count, element_type(taken.element));
        text_.line(
            "{} = \"memref.reinterpret_cast\"({}) <{{operandSegmentSizes = array<i32: 1, 0, 0, 0>, static_offsets = "
            "array<i64: 0>, static_sizes = array<i64: {}>, static_strides = array<i64: 1>}}> : ({}) -> {}",
            part, value, taken.count, memref(given), type);
        std::string plain = text_.value();
        text_.line("{} = \"memref.cast\"({}) : ({}) -> {}", plain, part, type, memref(taken));
        return plain;
    }

    const Design& design_;
    const Worker& worker_;
    MlirText& text_;
    std::map<std::string, Held> held_;
};

void write_kernel(const KernelUse& kernel, MlirText& text) {
    const std::string types = joined(kernel.arguments, [](const KernelUse::Argument& argument) {
        return argument.number ? std::string("i32") : memref(argument.buffer);
    });
    text.line("\"func.func\"() <{{function_type = ({}) -> (), sym_name = \"{}\", sym_visibility = \"private\"}}> ({{",
              types, kernel.symbol);
    text.line("}}) {{link_with = \"{}\"}} : () -> ()", object_file(kernel.source));
}

void write_tiles(const Design& design, MlirText& text) {
    std::set<Tile> tiles;
    for (const Worker& worker : design.workers) tiles.insert(worker.tile);
    for (const Fifo& fifo : design.fifos) {
        tiles.insert(fifo.producer);
        tiles.insert(fifo.consumers.begin(), fifo.consumers.end());
    }
    for (const Tile tile : tiles)
        text.line("{} = \"aie.tile\"() <{{col = {} : i32, row = {} : i32}}> : () -> index", tile_name(tile),
                  tile.column, tile.row);
}

void write_fifo(const Fifo& fifo, MlirText& text) {
    std::vector<Access> writes = fifo.from_stream;
    writes.resize(fifo.consumers.size());
    const std::string consumers = joined(fifo.consumers, tile_name);
    const std::string types = joined(fifo.consumers, [](Tile) { return std::string("index"); });
    text.line(
        "\"aie.objectfifo\"({}, {}) <{{dimensionsFromStreamPerConsumer = #aie<bd_dim_layout_array_array[{}]>, "
        "dimensionsToStream = #aie<bd_dim_layout_array{}>, disable_synchronization = false, elemNumber = {} : i32, "
        "elemType = !aie.objectfifo<{}>, plio = false, sym_name = \"{}\", via_DMA = false}}> : (index, {}) -> ()",
        tile_name(fifo.producer), consumers, joined(writes, dimensions), dimensions(fifo.to_stream), fifo.depth,
        memref(fifo.object), fifo.name, types);
}

void write_link(const Link& link, MlirText& text) {
    const std::string offsets = joined(link.offsets, [](int64_t offset) { return std::to_string(offset); });
    const bool join = link.from.size() > 1;
    text.line(
        "\"aie.objectfifo.link\"() <{{dst_offsets = [{}], fifoIns = [{}], fifoOuts = [{}], src_offsets = [{}]}}> : () "
        "-> ()",
        join ? "" : offsets, symbols(link.from), symbols(link.to), join ? offsets : "");
}

void write_transfer(const Design& design, const HostStep& step, MlirText& text) {
    const Transfer& transfer = design.sequence.transfers[step.transfer];
    const HostArgument& argument = design.sequence.arguments[static_cast<size_t>(transfer.argument)];
    HostAccess host = host_access(transfer.access);
    while (host.inner.size() < 3) host.inner.insert(host.inner.begin(), {1, 0});
    host.inner.insert(host.inner.begin(), host.repeat);
    const auto size = [](const AccessDim& dim) { return std::to_string(dim.size); };
    const auto stride = [](const AccessDim& dim) { return std::to_string(dim.stride); };
    text.line(
        "\"aiex.npu.dma_memcpy_nd\"(%arg{}) <{{id = {} : i64, issue_token = {}, metadata = @{}, operandSegmentSizes = "
        "array<i32: 1, 0, 0, 0>, static_offsets = array<i64: 0, 0, 0, {}>, static_sizes = array<i64: {}>, "
        "static_strides = array<i64: {}>}}> : ({}) -> ()",
        transfer.argument, step.descriptor, step.token, transfer.fifo, transfer.offset, joined(host.inner, size),
        joined(host.inner, stride), memref(argument.type));
}

void write_sequence(const Design& design, const Array& array, MlirText& text) {
    text.line("\"aie.runtime_sequence\"() <{{sym_name = \"sequence\"}}> ({{");
    std::string arguments;
    for (size_t i = 0; i < design.sequence.arguments.size(); ++i)
        arguments += fmt::format("{}%arg{}: {}", i == 0 ? "" : ", ", i, memref(design.sequence.arguments[i].type));
    text.line("^bb0({}):", arguments);
    text.open();
    for (const HostStep& step : host_schedule(design, array)) {
        if (step.kind == HostStep::Kind::issue)
            write_transfer(design, step, text);
        else
            text.line("\"aiex.npu.dma_wait\"() <{{symbol = @{}}}> : () -> ()",
                      design.sequence.transfers[step.transfer].fifo);
    }
    text.close();
    text.line("}}) : () -> ()");
}

}  // namespace

std::string to_mlir(const Design& design, MlirPart part) {
    const Array* array = find_array(design.array);
    CHECK(array != nullptr, "a design for no array");
    MlirText text;
    text.line("// {} for {}", design.name, array->name);
    text.line("\"builtin.module\"() ({{");
    text.open();
    text.line("\"aie.device\"() <{{device = {} : i32, sym_name = \"main\"}}> ({{", device_number(array->name));
    text.open();
    for (const KernelUse& kernel : design.kernels) write_kernel(kernel, text);
    write_tiles(design, text);
    for (const Fifo& fifo : design.fifos) write_fifo(fifo, text);
    for (const Link& link : design.links) write_link(link, text);
    for (const Worker& worker : design.workers) CoreText(design, worker, text).write();
    if (part == MlirPart::all) write_sequence(design, *array, text);
    text.line("\"aie.end\"() : () -> ()");
    text.close();
    text.line("}}) : () -> ()");
    text.close();
    text.line("}}) : () -> ()");
    return text.take();
}

std::string object_file(const std::string& source) {
    return source.substr(0, source.rfind('.')) + ".o";
}

}  // namespace tandem::npu
