// Runtime: the one interface between the NPU backend and what executes designs, the device itself or its emulator.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "device/backend.h"

namespace tandem::npu {

struct Design;  // npu/design.h

// Host memory that runs read and write in place: `bytes` is where its maker put it. Whoever imports memory keeps it for
// as long as the Buffer lives; `keeper` can see to that.
class Buffer {
  public:
    explicit Buffer(std::span<std::byte> bytes, std::shared_ptr<const void> keeper = nullptr)
        : bytes_(bytes), keeper_(std::move(keeper)) {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    virtual ~Buffer() = default;

    std::span<std::byte> bytes() const { return bytes_; }
    // The host has written to it: what it wrote goes to memory before the next run that uses it. A new one has been.
    void mark_written() { written_ = true; }
    bool is_written() const { return written_; }

  protected:
    void mark_flushed() { written_ = false; }

  private:
    bool written_ = true;
    std::span<std::byte> bytes_;
    std::shared_ptr<const void> keeper_;
};

struct BufferOptions {
    std::shared_ptr<const void> keeper = nullptr;  // kept as long as the Buffer: it may own the memory
};

struct RunReport {
    double seconds = 0;
    bool estimated = false;      // by the emulator, in place of a clock
    uint64_t copied_bytes = 0;   // to and from memory that the device cannot use in place
    uint64_t flushed_bytes = 0;  // of the host's caches, since the device does not see these
};

// Below the 2 s after which the driver itself gives a run up, so that it is we who say which one; no design of ours
// takes a tenth of it.
constexpr std::chrono::milliseconds kRunTimeout{1'500};

// A design that is ready to run. Those of one name share what the array is loaded with, which stays there.
class LoadedDesign {
  public:
    LoadedDesign() = default;
    LoadedDesign(const LoadedDesign&) = delete;
    LoadedDesign& operator=(const LoadedDesign&) = delete;
    virtual ~LoadedDesign() = default;

    // Runs to the end with the host buffers of the design's runtime sequence, in its order. An error means that what it
    // writes is undefined. One that does not end in time is given up; the emulator, which notices when nothing moves
    // any more, need not look at the clock.
    virtual Result<RunReport> run(std::span<Buffer* const> arguments,
                                  std::chrono::milliseconds timeout = kRunTimeout) = 0;
};

struct Launch {
    LoadedDesign* design = nullptr;
    std::span<Buffer* const> arguments;
};

// Not for several threads at a time; runs of one Runtime are one after another.
class Runtime {
  public:
    static constexpr uint64_t kPageBytes = 4096;

    Runtime() = default;
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;
    virtual ~Runtime() = default;

    virtual std::string_view name() const = 0;  // "npu", "npu emulator": in every report of what ran
    virtual const device::Description& describe() const = 0;

    // Makes memory of the host usable for runs, without a copy. It must be whole pages.
    virtual Result<std::shared_ptr<Buffer>> import_memory(std::span<std::byte> memory, BufferOptions options) = 0;

    virtual Result<std::unique_ptr<LoadedDesign>> load(const Design& design) = 0;

    // Runs one after another, each seeing what those before wrote: together at the cost of one dispatch where the
    // runtime can do that. The time-out is for all.
    virtual Result<RunReport> run_all(std::span<const Launch> launches, std::chrono::milliseconds timeout);
};

}  // namespace tandem::npu
