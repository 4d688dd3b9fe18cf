#include "npu/toolchain.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "npu/array.h"
#include "npu/kernel_sources.h"
#include "npu/mlir.h"
#include "npu/process.h"

namespace tandem::npu {
namespace {

namespace fs = std::filesystem;

constexpr const char* kXclbin = "design.xclbin";
constexpr const char* kInstructions = "instructions.bin";
// aie_api ends by including a header for another compiler's graphs, unless its guard is set already: Peano has none.
constexpr const char* kNoAdf = "-D__AIE_API_AIE_ADF_HPP__";
constexpr const char* kHowToInstall =
    "install mlir-aie and Peano (llvm-aie) as https://github.com/Xilinx/mlir-aie describes and source its "
    "utils/env_setup.sh, or set MLIR_AIE_INSTALL_DIR and PEANO_INSTALL_DIR";

std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

bool is_program(const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

// In `folder`/bin, then along the search path.
fs::path find_program(const std::string& folder, const std::string& path, std::initializer_list<const char*> names) {
    std::vector<std::string> folders;
    if (!folder.empty()) folders.push_back(folder + "/bin");
    for (size_t begin = 0; begin < path.size();) {
        const size_t end = std::min(path.find(':', begin), path.size());
        if (end > begin) folders.push_back(path.substr(begin, end - begin));
        begin = end + 1;
    }
    for (const std::string& place : folders)
        for (const char* name : names)
            if (is_program(fs::path(place) / name)) return fs::path(place) / name;
    return {};
}

// A folder that is removed in the end.
class WorkFolder {
  public:
    static Result<WorkFolder> make(const fs::path& parent) {
        std::error_code error;
        fs::create_directories(parent, error);
        std::string name = (parent / ".work-XXXXXX").string();
        if (error || mkdtemp(name.data()) == nullptr) return fail("{}: cannot make a folder in it", parent.string());
        return WorkFolder(name);
    }
    WorkFolder(WorkFolder&& other) noexcept : path_(std::exchange(other.path_, fs::path())) {}
    WorkFolder& operator=(WorkFolder&&) = delete;
    WorkFolder(const WorkFolder&) = delete;
    WorkFolder& operator=(const WorkFolder&) = delete;
    ~WorkFolder() {
        std::error_code ignored;
        if (!path_.empty()) fs::remove_all(path_, ignored);
    }
    const fs::path& path() const { return path_; }

  private:
    explicit WorkFolder(fs::path path) : path_(std::move(path)) {}
    fs::path path_;
};

// What a program prints, to its end.
Result<std::string> output_of(const std::vector<std::string>& arguments) {
    std::error_code error;
    const fs::path temporary = fs::temp_directory_path(error);
    if (error) return fail("there is no folder for temporary files: {}", error.message());
    const WorkFolder work = TRY(WorkFolder::make(temporary));
    const fs::path log = work.path() / "log";
    TRY(run_process({.arguments = arguments, .directory = work.path(), .log = log}));
    return read_text_file(log);
}

// All lines in one: of aiecc the first is the same in every version, and the second has the revision.
std::string in_one_line(const std::string& text) {
    std::string line;
    for (const char c : text) line += c == '\n' ? ' ' : c;
    while (!line.empty() && line.back() == ' ') line.pop_back();
    return line;
}

// The last lines of a log that say something, in one.
std::string last_lines(const std::string& log) {
    constexpr size_t kLines = 3;
    std::vector<std::string> lines;
    for (size_t begin = 0; begin < log.size();) {
        const size_t end = std::min(log.find('\n', begin), log.size());
        if (log.find_first_not_of(" \t\r", begin) < end) lines.push_back(log.substr(begin, end - begin));
        begin = end + 1;
    }
    std::string text;
    for (size_t i = lines.size() - std::min(lines.size(), kLines); i < lines.size(); ++i)
        text += (text.empty() ? "" : " | ") + lines[i];
    return text;
}

std::string digest(const std::vector<std::string_view>& parts) {
    std::string all;
    for (const std::string_view part : parts)
        all += fmt::format("{}:{}", part.size(), part);  // so that no two lists of parts are the same
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    CHECK(EVP_Digest(all.data(), all.size(), bytes.data(), nullptr, EVP_sha256(), nullptr) == 1, "SHA-256 failed");
    constexpr size_t kBytes = 16;
    return fmt::format("{:02x}", fmt::join(bytes.begin(), bytes.begin() + kBytes, ""));
}

std::set<std::string> sources_of(const Design& design) {
    std::set<std::string> sources;
    for (const KernelUse& kernel : design.kernels) sources.insert(kernel.source);
    return sources;
}

bool is_header(std::string_view name) {
    return name.ends_with(".h");
}

// <cache>/npu/<what the array is loaded with>/<by which toolchain>/design.xclbin, and beside it the instructions of
// each sequence.
fs::path content_folder(const Design& design, const fs::path& cache) {
    const std::string mlir = to_mlir(design, MlirPart::array);
    const std::set<std::string> used = sources_of(design);
    std::vector<std::string_view> parts{mlir};
    for (const KernelSource& source : kernel_sources()) {
        if (!is_header(source.name) && used.count(std::string(source.name)) == 0) continue;
        parts.push_back(source.name);
        parts.push_back(source.text);
    }
    return cache / "npu" / digest(parts);
}

BuiltDesign built_in(const fs::path& folder, const Design& design) {
    return {
        .xclbin = folder / kXclbin, .instructions = folder / (digest({to_mlir(design)}) + ".bin"), .from_cache = true};
}

bool is_file(const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored);
}

bool is_complete(const BuiltDesign& built) {
    return is_file(built.xclbin) && is_file(built.instructions);
}

// One build in a folder of its own.
class Build {
  public:
    Build(const Design& design, const Toolchain& toolchain, const BuildOptions& options, const fs::path& folder)
        : design_(design), toolchain_(toolchain), options_(options), folder_(folder) {}

    // All of it, or only the instructions of another sequence for what is there.
    Status run(const fs::path& log, bool all) {
        log_ = log;
        TRY(write_inputs());
        if (all)
            for (const std::string& source : sources_of(design_)) TRY(compile_kernel(source));
        TRY(compile_design(all));
        if ((all && !is_file(folder_ / kXclbin)) || !is_file(folder_ / kInstructions))
            return fail("{} ended well but made no {}{}; its output is in {}", toolchain_.aiecc.string(),
                        all ? "design.xclbin and " : "", kInstructions, log_.string());
        return Ok{};
    }

  private:
    Status write_inputs() const {
        std::error_code error;
        fs::create_directories(folder_ / "npu" / "kernels", error);
        if (error) return fail("{}: {}", folder_.string(), error.message());
        for (const KernelSource& source : kernel_sources())
            TRY(write_file(folder_ / "npu" / "kernels" / source.name, source.text));
        return write_file(folder_ / "design.mlir", to_mlir(design_));
    }

    Status step(const std::string& what, const std::vector<std::string>& arguments) {
        options_.progress(what);
        const std::string peano = toolchain_.clang.parent_path().parent_path().string();
        const int code = TRY(run_process({.arguments = arguments,
                                          .directory = folder_,
                                          .log = log_,
                                          .environment = {{"PEANO_INSTALL_DIR", peano}}}));
        if (code == 0) return Ok{};
        const Result<std::string> log = read_text_file(log_);
        return fail("{} failed with exit code {}: {} (all of it is in {})", what, code, log ? last_lines(*log) : "",
                    log_.string());
    }

    Status compile_kernel(const std::string& source) {
        return step(
            "compiling " + source,
            {toolchain_.clang.string(), "-O2", "-std=c++20",
             fmt::format("--target={}-none-unknown-elf", find_array(design_.array)->core_target), "-DNDEBUG", kNoAdf,
             "-Wno-parentheses", "-Wno-attributes", "-Wno-macro-redefined", "-Wno-empty-body",
             "-I" + toolchain_.include.string(), "-I.", "-c", "npu/kernels/" + source, "-o", object_file(source)});
    }

    Status compile_design(bool all) {
        std::vector<std::string> arguments{toolchain_.aiecc.string()};
        if (toolchain_.plain_options) {
            if (all) arguments.emplace_back("--get-xclbin");
            arguments.emplace_back("--get-npu-insts");
        } else {
            arguments.emplace_back(all ? "--aie-generate-xclbin" : "--no-compile");
            arguments.insert(arguments.end(),
                             {"--aie-generate-npu-insts", "--no-compile-host", "--no-xchesscc", "--no-xbridge"});
        }
        arguments.emplace_back("--alloc-scheme=basic-sequential");  // as npu/memory_map.h has it
        if (all) arguments.push_back(fmt::format("--xclbin-name={}", kXclbin));
        arguments.push_back(fmt::format("--npu-insts-name={}", kInstructions));
        arguments.emplace_back("design.mlir");
        const std::string space = design_.shape.empty() ? "" : " ";
        return step("compiling " + design_.name + space + design_.shape, arguments);
    }

    const Design& design_;
    const Toolchain& toolchain_;
    const BuildOptions& options_;
    fs::path folder_;
    fs::path log_;
};

// Moves what was made to where it is looked for, each file as a whole.
Status keep(const fs::path& work, const BuiltDesign& target) {
    std::error_code error;
    fs::create_directories(target.xclbin.parent_path(), error);
    if (!error) fs::rename(work / kInstructions, target.instructions, error);
    if (!error && is_file(work / kXclbin)) fs::rename(work / kXclbin, target.xclbin, error);
    if (error) return fail("{}: {}", target.xclbin.string(), error.message());
    return Ok{};
}

}  // namespace

ToolPlaces ToolPlaces::of_environment() {
    return {.path = variable("PATH"),
            .mlir_aie_dir = variable("MLIR_AIE_INSTALL_DIR"),
            .peano_dir = variable("PEANO_INSTALL_DIR")};
}

Result<Toolchain> find_toolchain(const ToolPlaces& places) {
    Toolchain toolchain;
    toolchain.aiecc = find_program(places.mlir_aie_dir, places.path, {"aiecc", "aiecc.py"});
    if (toolchain.aiecc.empty())
        return fail("aiecc, the vendor's compiler for designs, is not installed: {}", kHowToInstall);
    // Of clang++ there are many: only Peano's knows the cores.
    if (places.peano_dir.empty())
        return fail("Peano, the vendor's compiler for kernels, is not set up (PEANO_INSTALL_DIR): {}", kHowToInstall);
    toolchain.clang = fs::path(places.peano_dir) / "bin" / "clang++";
    if (!is_program(toolchain.clang)) return fail("{} is not there: {}", toolchain.clang.string(), kHowToInstall);
    toolchain.include = toolchain.aiecc.parent_path().parent_path() / "include";
    const std::string help = TRY(output_of({toolchain.aiecc.string(), "--help"}));
    toolchain.plain_options = help.find("--get-xclbin") != std::string::npos;
    toolchain.version = in_one_line(TRY(output_of({toolchain.aiecc.string(), "--version"}))) + ", " +
                        in_one_line(TRY(output_of({toolchain.clang.string(), "--version"})));
    return toolchain;
}

Result<BuiltDesign> build_design(const Design& design, const Toolchain& toolchain, const BuildOptions& options) {
    if (options.cache.empty()) return fail("there is no place to build in: set HOME or XDG_CACHE_HOME");
    const fs::path content = content_folder(design, options.cache);
    BuiltDesign built = built_in(content / digest({toolchain.version}), design);
    if (is_complete(built)) return built;
    const WorkFolder work = TRY(WorkFolder::make(content));
    const fs::path log = content / "log.txt";
    std::error_code ignored;
    fs::remove(log, ignored);
    TRY(Build(design, toolchain, options, work.path()).run(log, !is_file(built.xclbin)));
    TRY(keep(work.path(), built));
    fs::remove(log, ignored);
    built.from_cache = false;
    return built;
}

std::optional<BuiltDesign> find_built(const Design& design, const std::filesystem::path& cache) {
    std::optional<BuiltDesign> latest;
    fs::file_time_type latest_time{};
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(content_folder(design, cache), error)) {
        const BuiltDesign built = built_in(entry.path(), design);
        if (!is_complete(built)) continue;
        const fs::file_time_type time = fs::last_write_time(built.xclbin, error);
        if (latest && time <= latest_time) continue;
        latest = built;
        latest_time = time;
    }
    return latest;
}

}  // namespace tandem::npu
