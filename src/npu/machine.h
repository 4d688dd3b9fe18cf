// Machine: the parts of the emulator, made from a Design that check() accepts, with every name resolved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "npu/activity.h"
#include "npu/array.h"
#include "npu/design.h"
#include "npu/emulator.h"
#include "npu/host_schedule.h"
#include "npu/walk.h"

namespace tandem::npu {

// Objects in a tile's memory, each between two zones that nothing may write to.
class GuardedMemory {
  public:
    GuardedMemory(int64_t object_bytes, int objects);

    std::byte* object(uint64_t index) const { return bytes_.get() + kGuardBytes + index * pitch_; }
    bool intact(const std::byte* object) const;
    void poison() const;  // as memory is before anything is written: neither zeros nor what was there last time

  private:
    static constexpr uint64_t kGuardBytes = 64;
    static constexpr std::align_val_t kAlignment{64};
    struct Free {
        void operator()(std::byte* bytes) const { ::operator delete[](bytes, kAlignment); }
    };
    uint64_t object_bytes_;
    uint64_t pitch_;
    uint64_t objects_;
    std::unique_ptr<std::byte[], Free> bytes_;
};

// A ring of objects at one end of a FIFO, or where a link takes them over. Each writer writes every object, or its part
// of it (join); each reader reads every object, or its part (distribute). The counters are the locks.
class Pool {
  public:
    Pool(const Fifo& fifo, Tile tile, size_t writers, size_t readers);

    bool can_write(size_t writer, uint64_t objects) const;
    bool can_read(size_t reader, uint64_t objects) const;
    std::byte* to_write(size_t writer, uint64_t ahead = 0) const { return at(written_[writer] + ahead); }
    std::byte* to_read(size_t reader, uint64_t ahead = 0) const { return at(read_[reader] + ahead); }
    void wrote(size_t writer, uint64_t objects) { written_[writer] += objects; }
    void has_read(size_t reader, uint64_t objects) { read_[reader] += objects; }

    const Fifo& fifo() const { return *fifo_; }
    Tile tile() const { return tile_; }
    uint64_t left_behind() const;  // objects written that nobody took
    bool intact(const std::byte* object) const { return memory_.intact(object); }
    void reset();

  private:
    std::byte* at(uint64_t index) const { return memory_.object(index % depth_); }

    const Fifo* fifo_;
    Tile tile_;
    uint64_t depth_;
    GuardedMemory memory_;
    std::vector<uint64_t> written_;
    std::vector<uint64_t> read_;
};

// A transfer of the sequence under way.
struct ActiveTransfer {
    size_t index = 0;
    int descriptor = 0;
    bool token = false;
    AccessCursor cursor;
    int64_t left_bytes = 0;
};

// A descriptor at one end of a stream: the part of an object that it walks over, and how.
struct PartRuns {
    int64_t offset_bytes = 0;
    Runs runs;
};

// The DMA channels and the wires of one FIFO: takes an object as soon as it is there and every consumer has space.
struct Stream {
    struct Sink {
        Pool* pool = nullptr;
        size_t writer = 0;
        int64_t offset_bytes = 0;
        std::vector<PartRuns> parts = {};
    };

    const Fifo* fifo = nullptr;
    Pool* source = nullptr;  // none: filled by transfers
    size_t reader = 0;
    int64_t offset_bytes = 0;
    std::vector<PartRuns> parts = {};
    std::vector<Sink> sinks = {};  // none: drained by transfers
    std::deque<ActiveTransfer> transfers = {};
    uint64_t tokens = 0;  // of transfers that ended, which nobody has waited for
    uint64_t objects = 0;

    bool source_ready() const { return source != nullptr ? source->can_read(reader, 1) : !transfers.empty(); }
    const Pool* full_sink() const;  // the first without space
    bool sinks_ready() const { return sinks.empty() ? !transfers.empty() : full_sink() == nullptr; }
    // Moves what can be moved; true: something was. Puts the transfers that ended into `ended`.
    bool step(std::vector<size_t>& ended);

  private:
    void move_object();
    // From the source or the transfer to the sink or the transfer, which is moved on.
    void copy_object(AccessCursor* transfer, const Sink* sink) const;
};

// One core: runs its statements until it has to wait.
class Core {
  public:
    struct End {
        Pool* pool = nullptr;
        size_t index = 0;  // among the pool's writers or readers
        bool produces = false;
        uint64_t held = 0;
    };

    static Result<Core> make(const Design& design, const Worker& worker, const KernelFinder& kernels,
                             std::vector<End> ends, const Array& array);

    Result<bool> run();  // true: it got on
    // Between two rounds: it has taken nothing of the next.
    bool idle() const { return !begun_; }
    // In the middle of a round, or before one for want of space.
    bool is_stuck() const;
    std::string waits_for() const;
    const TileActivity& activity() const { return activity_; }
    void reset();

  private:
    struct Op {
        enum class Kind : uint8_t { acquire, release, call, loop, next };
        Kind kind = Kind::call;
        size_t index = 0;                    // of the end or the call
        uint64_t count = 0;                  // objects or iterations
        size_t jump = 0;                     // loop: past its end; next: its first statement
        const std::byte* counter = nullptr;  // of a loop: where the number of its iterations is
    };
    struct ObjectOf {
        size_t argument = 0;
        size_t end = 0;
        uint64_t object = 0;
    };
    struct PreparedCall {
        const Kernel* kernel = nullptr;
        IssueRates rates = {};
        std::vector<KernelArgument> arguments = {};
        std::vector<ObjectOf> objects = {};
        std::vector<size_t> buffers = {};  // of the worker, in use by this call
    };
    struct Local {
        std::string name;
        int64_t size_bytes;
        GuardedMemory memory;
    };

    // What its statements are made from.
    struct Source {
        const Design& design;
        const Worker& worker;
        const KernelFinder& kernels;
        const Array& array;
    };

    Core() = default;
    Status add_statements(const Source& source, const std::vector<Statement>& body);
    Status add_call(const Source& source, const Call& call);
    Status enter(const Op& op);
    size_t find_end(const std::string& fifo) const;
    const Local& local(const std::string& name) const;
    bool acquire(const Op& op);
    void release(const Op& op);
    Status call(PreparedCall& call);
    Status check_guards(const PreparedCall& call) const;

    Tile tile_;
    std::vector<Op> ops_;
    std::vector<PreparedCall> calls_;
    std::vector<End> ends_;
    std::vector<Local> locals_;
    size_t at_ = 0;
    bool begun_ = false;  // it has taken an object in this round
    std::vector<uint64_t> iterations_left_;
    TileActivity activity_;
};

std::string text(Tile tile);

struct Machine {
    Design design;
    const Array* array = nullptr;
    std::vector<std::unique_ptr<Pool>> pools;
    std::vector<Stream> streams;
    std::vector<Core> cores;
    std::vector<HostStep> steps;           // of the host, as they are written for the device
    std::vector<Runs> transfer_runs;       // per transfer of the sequence
    std::vector<size_t> transfer_streams;  // whose it is

    static Result<std::unique_ptr<Machine>> make(Design design, const KernelFinder& kernels);
};

}  // namespace tandem::npu
