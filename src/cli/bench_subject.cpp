#include "cli/bench_subject.h"

#include <algorithm>

#include "cli/text_output.h"
#include "device/host_memory.h"
#include "engine/bundle.h"
#include "user/models.h"

namespace tandem::cli {

namespace {

// A shape with the types that were asked for; nothing where the name is none of a shape.
Result<std::optional<models::SyntheticSpec>> find_shape(const SubjectChoice& choice) {
    const std::span<const models::NamedShape> shapes = models::named_shapes();
    const auto found = std::ranges::find(shapes, choice.model, &models::NamedShape::name);
    if (found == shapes.end()) {
        if (choice.type.empty()) return std::optional<models::SyntheticSpec>();
        return fail("--type is for shapes of random weights; {} has its own: use `tandem quantize`", choice.model);
    }
    models::SyntheticSpec spec = found->spec;
    // What is measured is a type's kernels: its name is the type alone here, also where a mix is called the same.
    if (const std::optional<DType> type = parse_dtype(choice.type)) {
        spec.mix = models::plain_mix(*type);
    } else if (!choice.type.empty()) {
        spec.mix = models::find_mix(choice.type);
    }
    return std::optional(std::move(spec));
}

Result<models::MemoryFile> make_weights(std::string_view name, const models::SyntheticSpec& spec,
                                        const device::Description& device, int thread_count) {
    const uint64_t needed = TRY(models::random_gguf_bytes(spec));
    TRY(check_room(name, needed, device));
    const uint64_t available = device::host_memory().available_bytes;
    if (available < needed) {
        return fail("{}: its random weights need {} of memory, {} are available: choose a smaller shape", name,
                    format_bytes(needed), format_bytes(available));
    }
    note(fmt::format("making {} of random weights", format_bytes(needed)));
    Progress progress("weights");
    ThreadPool threads(thread_count);
    return models::make_random_gguf(spec, threads, [&](uint64_t done, uint64_t total) {
        progress.show(static_cast<double>(done), static_cast<double>(total));
    });
}

}  // namespace

Status check_room(std::string_view model, uint64_t needed_bytes, const device::Description& device) {
    const uint64_t available = device.free_bytes();
    if (needed_bytes <= available) return Ok{};
    return fail("{}: its weights need {}, {} ({}) has {} available: choose a smaller shape or another device", model,
                format_bytes(needed_bytes), device.name, device.hardware, format_bytes(available));
}

Result<uint64_t> subject_bytes(const SubjectChoice& choice) {
    if (const auto spec = TRY(find_shape(choice))) return models::random_gguf_bytes(*spec);
    const format::Checkpoint checkpoint = TRY(user::open_checkpoint(choice.model));
    return TRY(models::load(checkpoint)).weights.size_bytes();
}

Result<Subject> open_subject(const SubjectChoice& choice, const device::Description& device, int threads) {
    Subject subject;
    if (const auto spec = TRY(find_shape(choice))) {
        const std::string name = choice.type.empty() ? choice.model : fmt::format("{} {}", choice.model, choice.type);
        subject.random = TRY(make_weights(name, *spec, device, threads));
        subject.checkpoint =
            std::make_unique<format::Checkpoint>(TRY(format::Checkpoint::from_gguf(subject.random.bytes(), name)));
    } else {
        subject.checkpoint = std::make_unique<format::Checkpoint>(TRY(user::open_checkpoint(choice.model)));
    }
    subject.model = TRY(models::load(*subject.checkpoint));
    return subject;
}

}  // namespace tandem::cli
