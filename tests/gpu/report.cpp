// What a driver's compiler makes of the kernels: every pipeline that the golden families and the shapes of `tandem
// bench` need on the first Vulkan device, one line of JSON each. The device need not exist (tests/gpu/report.py):
// nothing is allocated on it, and nothing runs. A pipeline is named before it is compiled, since compilers crash.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/threads.h"
#include "golden/model_files.h"
#include "models/export.h"
#include "models/model.h"
#include "models/synthetic.h"
#include "vulkan/statistics.h"
#include "vulkan/survey.h"

namespace tandem {
namespace {

using models::SyntheticSpec;
using vulkan::PipelineKey;

constexpr int kPromptRows = 512;
constexpr int kSequences = 32;
constexpr int kBlockTokens = 32;

// What each pipeline is needed for: the first model that asked for it.
using Needed = std::map<PipelineKey, std::string>;

struct Chip {
    std::shared_ptr<vulkan::Device> device;
    vulkan::Tuning tuning;
};

// Common sizes of other families, beside the shapes that `tandem bench` knows: heads of 64 and of 128 elements.
std::vector<models::NamedShape> shapes() {
    const std::span<const models::NamedShape> known = models::named_shapes();
    std::vector<models::NamedShape> all(known.begin(), known.end());
    SyntheticSpec small{.family = "llama",
                        .dim = 2048,
                        .layers = 16,
                        .heads = 32,
                        .kv_heads = 8,
                        .head_dim = 64,
                        .ffn_dim = 8192,
                        .vocab = 128256,
                        .context_length = 131072,
                        .type = DType::q4_k,
                        .embedding = DType::q6_k};
    SyntheticSpec large = small;
    large.family = "qwen3";
    large.dim = 4096;
    large.layers = 36;
    large.head_dim = 128;
    large.ffn_dim = 12288;
    all.push_back({"llama3-1b", small});
    all.push_back({"qwen3-8b", large});
    for (models::NamedShape& shape : all) shape.spec.layers = std::min(shape.spec.layers, 12);  // the rest is the same
    return all;
}

Status add(const Chip& chip, const std::string& name, const models::Model& model, DType cache, Needed& needed) {
    const auto groups = static_cast<size_t>(model.program.cache_groups());
    const auto keys = TRY(vulkan::survey(chip.device, chip.tuning,
                                         {.program = model.program,
                                          .weights = model.weights,
                                          .cache = {.layers = model.program.caches,
                                                    .dtype = cache,
                                                    .block_tokens = kBlockTokens,
                                                    .blocks = std::vector<int>(groups, 1)},
                                          .limits = {.tokens = kPromptRows, .outputs = kSequences},
                                          .results = {"logits", "next"}}));
    for (const PipelineKey& key : keys) needed.emplace(key, name);
    return Ok{};
}

Status add_shapes(const Chip& chip, Needed& needed) {
    for (const models::NamedShape& shape : shapes()) {
        const models::MemoryFile file = TRY(models::make_empty_gguf(shape.spec));
        const auto checkpoint = TRY(format::Checkpoint::from_gguf(file.bytes(), std::string(shape.name)));
        const models::Model model = TRY(models::load(checkpoint));
        for (DType cache : {DType::f16, DType::q8_0}) TRY(add(chip, std::string(shape.name), model, cache, needed));
    }
    return Ok{};
}

// Each as it is, and as files of f16 and q8_0 have it.
Status add_golden(const Chip& chip, Needed& needed) {
    ThreadPool threads(1);
    for (const auto& entry : std::filesystem::directory_iterator(golden::golden_dir(""))) {
        const std::string name = entry.path().filename();
        const auto original = TRY(format::Checkpoint::open(entry.path()));
        const models::Model as_it_is = TRY(models::load(original));
        TRY(add(chip, name, as_it_is, DType::f32, needed));
        for (DType type : {DType::f16, DType::q8_0}) {
            const golden::TempDir dir;
            const std::filesystem::path path = dir.path() / "model.gguf";
            TRY(models::export_gguf(original, path, {.type = type, .threads = &threads}));
            const auto checkpoint = TRY(format::Checkpoint::open(path));
            const models::Model model = TRY(models::load(checkpoint));
            TRY(add(chip, name, model, DType::f16, needed));
        }
    }
    return Ok{};
}

// What is told of each pipeline: the compiler's numbers, also how many instructions of each kind, also the code itself.
enum class Detail { numbers, counts, code };

// Lines of the compiler's own notation, "result = instruction operands" or "instruction operands", by how the
// instruction begins. Not of the code that the device runs: the library that puts it into words does not know each
// chip.
int count_instructions(const std::string& text, std::span<const std::string_view> prefixes) {
    int count = 0;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        const size_t results = text.find(" = ", at);
        const size_t from = results < end ? results + 2 : at;
        const size_t word = std::min(text.find_first_not_of(" \t", from), end);
        for (std::string_view prefix : prefixes)
            count += static_cast<int>(text.compare(word, prefix.size(), prefix) == 0);
        at = end + 1;
    }
    return count;
}

void add_counts(const vulkan::PipelineStatistics& made, nlohmann::json& line) {
    constexpr std::array<std::string_view, 1> kMatrices{"v_wmma"};
    constexpr std::array<std::string_view, 2> kDots{"v_dot4", "v_dot8"};
    constexpr std::array<std::string_view, 3> kMemory{"global_", "buffer_", "flat_"};
    constexpr std::array<std::string_view, 1> kShared{"ds_"};
    line["matrices"] = count_instructions(made.instructions, kMatrices);
    line["dots"] = count_instructions(made.instructions, kDots);
    line["memory"] = count_instructions(made.instructions, kMemory);
    line["shared"] = count_instructions(made.instructions, kShared);
}

Status report(const Chip& chip, vulkan::PipelineCache& pipelines, const PipelineKey& key, const std::string& model,
              Detail detail) {
    nlohmann::json line = {
        {"kernel", key.kernel}, {"constants", key.constants}, {"required", key.subgroup}, {"model", model}};
    std::cout << line.dump() << std::endl;
    VkPipeline pipeline = TRY(pipelines.get(key));
    const vulkan::PipelineStatistics made = TRY(vulkan::read_statistics(*chip.device, pipeline));
    line["subgroup"] = made.subgroup;
    line["numbers"] = made.numbers;
    if (detail != Detail::numbers) add_counts(made, line);
    if (detail == Detail::code) {
        line["notation"] = made.instructions;
        line["code"] = made.assembly;
    }
    std::cout << line.dump() << std::endl;
    return Ok{};
}

// `part` of so many: the pipelines are dealt out to processes. `kernel`: only those whose name has it.
Status run(size_t part, size_t parts, Detail detail, const std::string& kernel) {
    Chip chip;
    chip.device = TRY(vulkan::Device::open("", {.statistics = true, .kernel_text = detail != Detail::numbers}));
    chip.tuning = vulkan::default_tuning(chip.device->info());
    if (!chip.device->capabilities().narrow_matrix) vulkan::leave_out_lanes(chip.tuning);
    const auto pipelines = TRY(vulkan::PipelineCache::open(chip.device, {}));
    Needed needed;
    TRY(add_shapes(chip, needed));
    TRY(add_golden(chip, needed));
    std::cerr << fmt::format("{}: {} compute units, {} pipelines\n", chip.device->info().name,
                             vulkan::compute_units(chip.device->info()), needed.size());
    size_t number = 0;
    for (const auto& [key, model] : needed) {
        if (number++ % parts != part || key.kernel.find(kernel) == std::string_view::npos) continue;
        TRY(report(chip, *pipelines, key, model, detail));
    }
    return Ok{};
}

}  // namespace
}  // namespace tandem

// gpu_report PART PARTS numbers|counts|code [KERNEL]
int main(int argc, char** argv) {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const std::map<std::string, tandem::Detail> details = {
        {"numbers", tandem::Detail::numbers}, {"counts", tandem::Detail::counts}, {"code", tandem::Detail::code}};
    if (arguments.size() < 3 || !details.contains(arguments[2])) {
        std::cerr << "usage: gpu_report PART PARTS numbers|counts|code [KERNEL]\n";
        return 2;
    }
    const auto done = tandem::run(std::stoul(arguments[0]), std::stoul(arguments[1]), details.at(arguments[2]),
                                  arguments.size() < 4 ? "" : arguments[3]);
    if (done) return 0;
    std::cerr << done.error().message << "\n";
    return 1;
}
