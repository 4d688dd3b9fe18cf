// The host's side of the NPU against the real XRT library, with its shim that takes everything and computes nothing.
#include "npu/xrt/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "device/host_memory.h"
#include "npu/design.h"
#include "npu/xrt/module/guard.h"
#include "npu/xrt/xclbin.h"
#include "unit/npu/make_xclbin.h"

namespace tandem::npu {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

#ifdef TANDEM_XRT_LIBRARIES  // built with XRT

template <typename T>
std::string message_of(const Result<T>& result) {
    return result ? "no error" : result.error().message;
}

void write_file(const fs::path& path, std::span<const std::byte> bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

// A design that passes bytes through a core: one buffer in, one out.
Design pass_through(const std::string& name, int64_t bytes) {
    const ObjectType object{Element::i8, 64}, all{Element::i8, bytes};
    const auto transfer = [&](const char* fifo, int argument) {
        return Transfer{.fifo = fifo, .argument = argument, .offset = 0, .access = {{bytes, 1}}, .wait = false};
    };
    return {.name = name,
            .array = "npu1",
            .fifos = {{.name = "in", .producer = {0, 0}, .consumers = {{0, 2}}, .object = object},
                      {.name = "out", .producer = {0, 2}, .consumers = {{0, 0}}, .object = object}},
            .links = {},
            .kernels = {},
            .workers = {},
            .sequence = {.arguments = {{"x", all}, {"y", all}}, .transfers = {transfer("in", 0), transfer("out", 1)}}};
}

class NpuXrt : public testing::Test {
  protected:
    static constexpr uint64_t kPage = Runtime::kPageBytes;

    // The library reads its settings when it is first used.
    static void SetUpTestSuite() {
        directory = fs::path(testing::TempDir()) / fmt::format("tandem_xrt_{}", getpid());
        fs::create_directories(directory);
        fs::create_directory_symlink(TANDEM_XRT_LIBRARIES, directory / "lib");
        setenv("XCL_EMULATION_MODE", "noop", 1);
        setenv("XILINX_XRT", directory.c_str(), 1);
    }
    static void TearDownTestSuite() { fs::remove_all(directory); }

    void SetUp() override {
        if (!fs::exists(directory / "lib" / "libxrt_noop.so.2")) GTEST_SKIP() << "this XRT has no noop shim";
        runtime_ = open([this](const Design& design) -> Result<BuiltDesign> { return files_of(design.name); });
        ASSERT_NE(runtime_, nullptr);
    }

    static std::unique_ptr<Runtime> open(std::function<Result<BuiltDesign>(const Design&)> built,
                                         const std::string& kernel = "MLIR_AIE") {
        auto opened = open_xrt({.device = 0, .built = std::move(built), .kernel = kernel});
        EXPECT_TRUE(opened) << opened.error().message;
        return opened ? std::move(*opened) : nullptr;
    }

    // As the toolchain would leave them in its cache.
    BuiltDesign files_of(const std::string& name) const {
        BuiltDesign files{.xclbin = directory / (name + ".xclbin"), .instructions = directory / (name + ".bin")};
        write_file(files.xclbin, write_xclbin(describe_kernel(name == "three" ? 3 : 2)));
        write_file(files.instructions, std::vector<std::byte>(256));
        return files;
    }

    std::shared_ptr<Buffer> import(uint64_t size_bytes, char fill) {
        auto memory =
            std::make_shared<device::HostBuffer>(device::HostBuffer::allocate(size_bytes, "a test", "none").value());
        std::memset(memory->data(), fill, memory->pages().size());
        auto buffer = runtime_->import_memory(memory->pages(), {.keeper = memory});
        EXPECT_TRUE(buffer) << buffer.error().message;
        return *buffer;
    }

    static inline fs::path directory;
    std::unique_ptr<Runtime> runtime_;
};

TEST_F(NpuXrt, RunsADesignThroughTheWholeHostPath) {
    EXPECT_EQ(runtime_->name(), "npu");
    const auto loaded = runtime_->load(pass_through("two", 8192));
    ASSERT_TRUE(loaded) << loaded.error().message;
    const auto x = import(8192, 'x'), y = import(8192, 'y');
    Buffer* arguments[] = {x.get(), y.get()};
    for (int i = 0; i < 3; ++i) {
        const Result<RunReport> report = (*loaded)->run(arguments);
        ASSERT_TRUE(report) << report.error().message;
        EXPECT_FALSE(report->estimated);
        EXPECT_GT(report->seconds, 0.0);
        EXPECT_EQ(report->copied_bytes, 0U) << "the library has the memory itself";
        // Both are new at first; after that only the result is read, and nothing is flushed that nobody wrote.
        EXPECT_EQ(report->flushed_bytes, i == 0 ? 3U * 8192 : 8192U);
    }
    x->mark_written();
    EXPECT_EQ((*loaded)->run(arguments)->flushed_bytes, 2U * 8192);
    EXPECT_EQ(y->bytes()[8191], std::byte{'y'}) << "the shim computes nothing, and nothing else writes there";
}

TEST_F(NpuXrt, UsesMemoryOfTheHostInPlace) {
    auto memory =
        std::make_shared<device::HostBuffer>(device::HostBuffer::allocate(4 * kPage, "a test", "none").value());
    const std::weak_ptr<device::HostBuffer> watched = memory;
    std::byte* const begin = memory->data();
    auto whole = runtime_->import_memory(memory->pages(), {.keeper = memory}).value();
    memory.reset();
    EXPECT_EQ(whole->bytes().data(), begin);
    EXPECT_FALSE(watched.expired()) << "the buffer keeps the memory";
    whole.reset();
    EXPECT_TRUE(watched.expired());
}

TEST_F(NpuXrt, RefusesMemoryThatIsNotWholePages) {
    const auto whole = import(2 * kPage, 0);
    EXPECT_THAT(message_of(runtime_->import_memory(whole->bytes().subspan(64), {})), HasSubstr("in pages of 4096"));
    EXPECT_THAT(message_of(runtime_->import_memory(whole->bytes().first(100), {})), HasSubstr("not 100 bytes"));
    EXPECT_THAT(message_of(runtime_->import_memory({}, {})), HasSubstr("not 0 bytes"));
}

TEST_F(NpuXrt, RunsDesignsInTurn) {
    std::vector<std::unique_ptr<LoadedDesign>> designs;
    for (int i = 0; i < 8; ++i) {
        auto loaded = runtime_->load(pass_through(fmt::format("d{}", i), 4096));
        ASSERT_TRUE(loaded) << loaded.error().message;
        designs.push_back(std::move(*loaded));
    }
    const auto x = import(4096, 'x'), y = import(4096, 'y');
    Buffer* arguments[] = {x.get(), y.get()};
    std::vector<Launch> launches;
    for (size_t i : {0U, 0U, 7U, 3U, 0U}) launches.push_back({designs[i].get(), arguments});
    const Result<RunReport> report = runtime_->run_all(launches, kRunTimeout);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_FALSE(report->estimated);
    designs.clear();
    EXPECT_TRUE(runtime_->load(pass_through("after", 4096)));
}

TEST_F(NpuXrt, RefusesArgumentsThatAreNotTheDesigns) {
    const auto loaded = runtime_->load(pass_through("two", 8192)).value();
    const auto large = import(8192, 0), small = import(4096, 0);
    Buffer* one[] = {large.get()};
    Buffer* short_one[] = {large.get(), small.get()};
    EXPECT_THAT(message_of(loaded->run(one)), HasSubstr("'two' takes 2 buffers, not 1"));
    EXPECT_THAT(message_of(loaded->run(short_one)), HasSubstr("'two' takes 8192 bytes as its buffer 1, not 4096"));
}

TEST_F(NpuXrt, SaysWhatIsWrongWithTheFilesOfADesign) {
    const Design design = pass_through("broken", 4096);
    const auto load = [&](const BuiltDesign& files, const std::string& kernel = "MLIR_AIE") {
        const auto runtime = open([&](const Design&) -> Result<BuiltDesign> { return files; }, kernel);
        return message_of(runtime->load(design));
    };
    EXPECT_EQ(load(files_of("broken")), "no error");
    BuiltDesign files = files_of("broken");
    EXPECT_THAT(load(files, "OTHER"), HasSubstr("broken.xclbin: has no kernel 'OTHER' (it has: MLIR_AIE)"));
    write_file(files.instructions, std::vector<std::byte>(6));
    EXPECT_THAT(load(files), HasSubstr("broken.bin: 6 bytes are no instructions"));
    write_file(files.instructions, {});
    EXPECT_THAT(load(files), HasSubstr("broken.bin"));
    files = files_of("broken");
    write_file(files.xclbin, std::vector<std::byte>(1000));
    EXPECT_THAT(load(files), HasSubstr("not an xclbin file"));
    files.xclbin = directory / "nowhere.xclbin";
    EXPECT_THAT(load(files), HasSubstr("nowhere.xclbin"));
    Xclbin without_metadata = describe_kernel(2);
    without_metadata.sections.erase(without_metadata.sections.begin());
    files = files_of("broken");
    write_file(files.xclbin, write_xclbin(without_metadata));
    EXPECT_THAT(load(files), HasSubstr("XRT: loading")) << "what only the library notices is an error too";

    const auto missing = open([](const Design&) -> Result<BuiltDesign> { return fail("run tandem npu build"); });
    EXPECT_EQ(message_of(missing->load(design)), "run tandem npu build");
}

// In a process of its own, since the library looks for devices only once.
TEST(NpuXrtWithoutDevice, IsAnErrorAndNoException) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto open_none = [] {
        unsetenv("XCL_EMULATION_MODE");
        const auto opened =
            open_xrt({.device = 99, .built = [](const Design&) -> Result<BuiltDesign> { return fail("-"); }});
        std::fputs(message_of(opened).c_str(), stderr);
        std::_Exit(opened ? 1 : 0);
    };
    EXPECT_EXIT(open_none(), testing::ExitedWithCode(0), "XRT: opening device 99 failed");
}

TEST(NpuXrtErrors, ComeWithARemedy) {
    EXPECT_THAT(state_error("gemm", 6).message, HasSubstr("aborted 'gemm': the firmware does not match the driver"));
    EXPECT_THAT(state_error("gemm", 8).message, HasSubstr("did not finish 'gemm' in time"));
    EXPECT_THAT(state_error("gemm", 3).message, HasSubstr("did not finish 'gemm' in time")) << "still running";
    EXPECT_THAT(state_error("gemm", 5).message, HasSubstr("failed 'gemm' (state 5"));
    const auto failing = [](int code) {
        return guarded("a call", [&] { throw std::system_error(code, std::generic_category(), "the driver"); });
    };
    EXPECT_THAT(message_of(failing(EACCES)), HasSubstr("XRT: a call failed: the driver"));
    EXPECT_THAT(message_of(failing(EACCES)), HasSubstr("group render"));
    EXPECT_THAT(message_of(failing(EINVAL)), HasSubstr("versions of driver, firmware and XRT"));
    EXPECT_THAT(message_of(failing(EAGAIN)), HasSubstr("memlock"));
    const auto plain = guarded("a call", []() -> int { throw std::runtime_error("no code"); });
    EXPECT_EQ(message_of(plain), "XRT: a call failed: no code");
    EXPECT_EQ(guarded("a call", [] { return 7; }).value(), 7);
}

#endif

// On a machine with an NPU it opens; on others every reason is given.
TEST(NpuOpen, FailsWithReasonsWhereThereIsNoNpu) {
    const auto opened =
        open_npu({.device = 0, .built = [](const Design&) -> Result<BuiltDesign> { return fail("-"); }});
    if (opened) GTEST_SKIP() << "there is one";
    EXPECT_THAT(opened.error().message, HasSubstr("NPU"));
}

}  // namespace
}  // namespace tandem::npu
