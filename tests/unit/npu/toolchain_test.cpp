#include "npu/toolchain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "base/file.h"
#include "npu/kernel_sources.h"
#include "unit/npu/sample_design.h"

namespace tandem::npu {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// A toolchain of shell scripts, which write down how they are called.
class FakeToolchain : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "tandem-toolchain-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        root_ = name;
        add_tool("aie/bin/aiecc", "case $1 in --version) echo aiecc 1.4;; --help) echo ' --get-xclbin';; *) " +
                                      record("aiecc") +
                                      "cat design.mlir > seen.mlir && echo xclbin > design.xclbin && echo insts > "
                                      "instructions.bin;; esac");
        add_tool("peano/bin/clang++",
                 "case $1 in --version) echo clang 20;; *) " + record("clang") +
                     "for last; do :; done; grep -q aie_api npu/kernels/vector_math.h && touch $last;; esac");
    }
    void TearDown() override { fs::remove_all(root_); }

    std::string record(const std::string& tool) const {
        return "echo " + tool + " \"$@\" PEANO=$PEANO_INSTALL_DIR >> " + (root_ / "calls").string() + "; ";
    }

    void add_tool(const std::string& name, const std::string& script) const {
        fs::create_directories((root_ / name).parent_path());
        std::ofstream(root_ / name) << "#!/bin/sh\n" << script << "\n";
        fs::permissions(root_ / name, fs::perms::owner_all);
    }

    ToolPlaces places() const {
        return {.path = "/nowhere", .mlir_aie_dir = (root_ / "aie").string(), .peano_dir = (root_ / "peano").string()};
    }
    BuildOptions options() {
        return {.cache = root_ / "cache", .progress = [this](std::string_view line) { progress_.emplace_back(line); }};
    }
    std::string calls() const {
        const Result<std::string> text = read_text_file(root_ / "calls");
        return text ? *text : "";
    }
    // Everything in the cache but for folders.
    std::set<std::string> cached_files() const {
        std::set<std::string> names;
        std::error_code none;
        for (const auto& entry : fs::recursive_directory_iterator(root_ / "cache", none))
            if (entry.is_regular_file()) names.insert(entry.path().filename().string());
        return names;
    }

    fs::path root_;
    std::vector<std::string> progress_;
};

TEST_F(FakeToolchain, CompilesKernelsThenTheDesign) {
    const Result<Toolchain> toolchain = find_toolchain(places());
    ASSERT_TRUE(toolchain) << toolchain.error().message;
    EXPECT_EQ(toolchain->version, "aiecc 1.4, clang 20");
    const Result<BuiltDesign> built = build_design(sample_design(), *toolchain, options());
    ASSERT_TRUE(built) << built.error().message;
    EXPECT_FALSE(built->from_cache);
    EXPECT_EQ(*read_text_file(built->xclbin), "xclbin\n");
    EXPECT_EQ(*read_text_file(built->instructions), "insts\n");
    EXPECT_THAT(calls(), HasSubstr("clang -O2 -std=c++20 --target=aie2-none-unknown-elf"));
    EXPECT_THAT(calls(), HasSubstr("-D__AIE_API_AIE_ADF_HPP__")) << "aie_api includes what Peano lacks";
    EXPECT_THAT(calls(), HasSubstr("-c npu/kernels/matmul_i8.cc -o matmul_i8.o PEANO=" + (root_ / "peano").string()));
    EXPECT_THAT(calls(), HasSubstr("aiecc --get-xclbin --get-npu-insts --alloc-scheme=basic-sequential "
                                   "--xclbin-name=design.xclbin --npu-insts-name=instructions.bin design.mlir"));
    EXPECT_THAT(progress_, ElementsAre("compiling add_f32.cc", "compiling matmul_i8.cc", "compiling sample"));
    EXPECT_EQ(cached_files().size(), 2U);
    EXPECT_EQ(cached_files().count("design.xclbin"), 1U);
}

TEST_F(FakeToolchain, BuildsOnceForEachContentAndToolchain) {
    Toolchain toolchain = *find_toolchain(places());
    const Design design = sample_design();
    EXPECT_FALSE(find_built(design, root_ / "cache"));
    const BuiltDesign first = *build_design(design, toolchain, options());
    const std::string calls_of_first = calls();
    const BuiltDesign again = *build_design(design, toolchain, options());
    EXPECT_TRUE(again.from_cache);
    EXPECT_EQ(again.xclbin, first.xclbin);
    EXPECT_EQ(calls(), calls_of_first);
    EXPECT_EQ(find_built(design, root_ / "cache")->xclbin, first.xclbin);

    toolchain.version += ".1";
    EXPECT_FALSE(build_design(design, toolchain, options())->from_cache);
    Design deeper = design;
    deeper.fifos[0].depth = 3;
    EXPECT_FALSE(find_built(deeper, root_ / "cache"));
    EXPECT_FALSE(build_design(deeper, toolchain, options())->from_cache);
}

// Of a design that is there for another sequence, only instructions are made.
TEST_F(FakeToolchain, AnotherSequenceNeedsOnlyItsInstructions) {
    const Toolchain toolchain = *find_toolchain(places());
    const BuiltDesign first = *build_design(sample_design(), toolchain, options());
    fs::remove(root_ / "calls");
    Design other = sample_design();
    other.sequence.transfers[0].access = {{8192, 1}};
    other.sequence.transfers[0].wait = true;
    const Result<BuiltDesign> built = build_design(other, toolchain, options());
    ASSERT_TRUE(built) << built.error().message;
    EXPECT_EQ(built->xclbin, first.xclbin);
    EXPECT_NE(built->instructions, first.instructions);
    EXPECT_THAT(calls(), HasSubstr("aiecc --get-npu-insts"));
    EXPECT_THAT(calls(), testing::Not(HasSubstr("clang")));
    EXPECT_THAT(calls(), testing::Not(HasSubstr("--get-xclbin")));
}

// The first line of aiecc's version is the same for all: what differs is in the second.
TEST_F(FakeToolchain, ToldApartByAllOfItsVersion) {
    const auto version_with = [&](const std::string& revision) {
        add_tool("aie/bin/aiecc", "case $1 in --version) echo aiecc; echo " + revision + ";; esac");
        return find_toolchain(places())->version;
    };
    EXPECT_NE(version_with("abc"), version_with("def"));
}

TEST_F(FakeToolchain, UsesTheOptionsOfOlderOnes) {
    fs::remove(root_ / "aie/bin/aiecc");
    add_tool("aie/bin/aiecc.py", "case $1 in --version) echo aiecc 1.1;; --help) echo ' --aie-generate-xclbin';; *) " +
                                     record("aiecc") + "touch design.xclbin instructions.bin;; esac");
    ASSERT_TRUE(build_design(sample_design(), *find_toolchain(places()), options()));
    EXPECT_THAT(calls(),
                HasSubstr("aiecc --aie-generate-xclbin --aie-generate-npu-insts --no-compile-host --no-xchesscc "
                          "--no-xbridge --alloc-scheme=basic-sequential --xclbin-name=design.xclbin"));
}

TEST_F(FakeToolchain, AFailureLeavesItsLogAndNothingElse) {
    add_tool("aie/bin/aiecc",
             "case $1 in --version) echo 1;; --help) echo;; *) touch design.xclbin; echo fine; echo; "
             "echo 'error: no room' >&2; exit 3;; esac");
    const Toolchain toolchain = *find_toolchain(places());
    const Result<BuiltDesign> built = build_design(sample_design(), toolchain, options());
    ASSERT_FALSE(built);
    EXPECT_THAT(built.error().message,
                HasSubstr("compiling sample failed with exit code 3: fine | error: no room (all of it is in "));
    EXPECT_EQ(cached_files(), (std::set<std::string>{"log.txt"}));
    EXPECT_FALSE(find_built(sample_design(), root_ / "cache"));
}

TEST_F(FakeToolchain, ACompilerThatMakesNothingIsAFailure) {
    add_tool("aie/bin/aiecc", "exit 0");
    const Result<BuiltDesign> built = build_design(sample_design(), *find_toolchain(places()), options());
    ASSERT_FALSE(built);
    EXPECT_THAT(built.error().message, HasSubstr("made no design.xclbin"));
    EXPECT_EQ(cached_files(), (std::set<std::string>{"log.txt"}));
}

TEST_F(FakeToolchain, SaysWhatToInstall) {
    EXPECT_THAT(find_toolchain({.path = "/nowhere", .mlir_aie_dir = "", .peano_dir = ""}).error().message,
                HasSubstr("aiecc, the vendor's compiler for designs, is not installed: install mlir-aie"));
    ToolPlaces half = places();
    half.peano_dir = "";
    EXPECT_THAT(find_toolchain(half).error().message, HasSubstr("PEANO_INSTALL_DIR"));
    half.peano_dir = "/nowhere";
    EXPECT_THAT(find_toolchain(half).error().message, HasSubstr("/nowhere/bin/clang++ is not there"));
    half = {.path = "/nowhere:" + (root_ / "aie/bin").string(), .mlir_aie_dir = "", .peano_dir = places().peano_dir};
    EXPECT_EQ(find_toolchain(half)->aiecc, root_ / "aie/bin/aiecc");
    EXPECT_THAT(build_design(sample_design(), *find_toolchain(places()), {.cache = ""}).error().message,
                HasSubstr("set HOME"));
}

// The loops of a source that have no other in them, nor a bound that is known when they are compiled.
std::vector<std::string> loops_without_a_hint(std::string_view text) {
    std::vector<std::string> lines;
    std::istringstream stream{std::string(text)};
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    const std::regex head(R"(^( *)for \((?:int32_t|int|unsigned) \w+ = .*; \w+ < ([^;]+);)");
    const std::regex known(R"((\d+|k[A-Z]\w*)( [*/+-] (\d+|k[A-Z]\w*))*)");
    std::vector<std::string> found;
    for (size_t i = 1; i < lines.size(); ++i) {
        std::smatch loop;
        if (!std::regex_search(lines[i], loop, head) || std::regex_match(loop.str(2), known)) continue;
        const auto end = std::find(lines.begin() + static_cast<int64_t>(i), lines.end(), loop.str(1) + "}");
        const bool braces = lines[i].find('{') != std::string::npos;
        const bool innermost =
            !braces || std::none_of(lines.begin() + static_cast<int64_t>(i) + 1, end,
                                    [](const std::string& line) { return line.find("for (") != std::string::npos; });
        const bool over_another = !braces && lines[i].ends_with(")");  // its body is the next line
        if (innermost && !over_another && lines[i - 1].find("LOOP_AT_LEAST(") == std::string::npos)
            found.push_back(lines[i]);
    }
    return found;
}

// Without a count or a hint the compiler of the array does not overlap the rounds of a loop.
TEST(KernelSources, TellTheCompilerHowOftenTheirLoopsRun) {
    EXPECT_EQ(loops_without_a_hint("{\n    for (int32_t i = 0; i < rows; ++i) {\n    }\n}").size(), 1U);
    for (const KernelSource& source : kernel_sources()) {
        EXPECT_EQ(loops_without_a_hint(source.text), std::vector<std::string>()) << source.name;
    }
}

TEST(KernelSources, AreInTheProgram) {
    std::set<std::string_view> names;
    for (const KernelSource& source : kernel_sources()) names.insert(source.name);
    EXPECT_EQ(names.count("gemm.cc"), 1U);
    EXPECT_EQ(names.count("vector_math.h"), 1U);
}

}  // namespace
}  // namespace tandem::npu
