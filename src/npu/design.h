// Design: what the array is to do, in plain data: workers on tiles, object FIFOs between them, and what the host moves.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tandem::npu {

// Column and row as the vendor counts them: row 0 is the shim, row 1 the mem tile, rows from 2 on compute.
struct Tile {
    int column = 0;
    int row = 0;

    // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads it
    auto operator<=>(const Tile&) const = default;
};

enum class Element : uint8_t { i8, u8, i16, i32, bf16, f32 };
int64_t size_bytes(Element element);
std::string_view name(Element element);  // "i8", "bf16"

// An object of a FIFO, a buffer of a tile or an argument of the host: `count` elements in a row.
struct ObjectType {
    Element element = Element::i8;
    int64_t count = 0;

    int64_t size_bytes() const;
    bool operator==(const ObjectType&) const = default;
};

// The order in which a DMA walks over elements, outermost first; none: one after another.
struct AccessDim {
    int64_t size = 1;
    int64_t stride = 1;  // in elements

    bool operator==(const AccessDim&) const = default;
};
using Access = std::vector<AccessDim>;
int64_t elements(const Access& access);  // how many it walks over: the product of the sizes

// Objects on their way from one tile to others. Several consumers get the same objects. `depth` objects lie at either
// end (at one end only between neighbours that share memory).
struct Fifo {
    std::string name;
    Tile producer;
    std::vector<Tile> consumers;
    ObjectType object;
    int depth = 2;
    // How the producer's DMA reads an object, and how each consumer's writes one; none: one after another. Where a mem
    // tile joins or distributes an object there is a descriptor for each part, and this is how it walks one part.
    Access to_stream = {};
    std::vector<Access> from_stream = {};  // per consumer; empty: none
};

// A mem tile passes objects on without a core. One to one; one to several: an object of `from` is cut at `offsets`
// (distribute); several to one: objects are put together (join).
struct Link {
    std::vector<std::string> from;
    std::vector<std::string> to;
    std::vector<int64_t> offsets = {};  // elements, one per part of the larger object
};

// A function of kernels/: its symbol, its file and what it takes.
struct KernelUse {
    std::string symbol;
    std::string source;  // "matmul_i8.cc"

    struct Argument {
        bool number = false;  // an int32_t
        ObjectType buffer = {};
    };
    std::vector<Argument> arguments;
    std::string mmul = {};  // the shape it multiplies in, "4x8x8 i8"; none: no matrix products
};

// What a worker's core does. Acquire takes `count` more objects, waiting for them; a worker holds `depth` of a FIFO at
// most, and what a loop's body acquires it releases. `object` counts from the oldest object that is held.
struct Acquire {
    std::string fifo;
    int count = 1;
};
struct Release {
    std::string fifo;
    int count = 1;
};
struct ObjectArgument {
    std::string fifo;
    int object = 0;
};
struct BufferArgument {
    std::string buffer;  // of the worker
};
struct Call {
    std::string kernel;  // symbol
    std::vector<std::variant<ObjectArgument, BufferArgument, int32_t>> arguments;
};
struct Loop;
using Statement = std::variant<Acquire, Release, Call, Loop>;
struct Loop {
    int64_t count = 1;  // with a counter: what the data of this sequence say
    std::vector<Statement> body;
    // A buffer of the worker whose first number, an i32, says at run time how many rounds there are: then the program
    // of the core is the same for all of them.
    std::string counter = {};
};

struct LocalBuffer {
    std::string name;
    ObjectType type;
};

struct Worker {
    Tile tile;
    std::vector<LocalBuffer> buffers = {};
    std::vector<Statement> body;  // again and again, as long as objects come
    int64_t stack_bytes = 1024;
};

// What the host moves, in order. Transfers of different FIFOs run side by side; those of one FIFO queue up, and a
// further one than the shim's queue holds lets the sequence wait (npu/host_schedule.h). The run ends when all that goes
// to the host has arrived.
struct HostArgument {
    std::string name;
    ObjectType type;
};
struct Transfer {
    std::string fifo;  // whose producer (fill) or consumer (drain) is a shim tile
    int argument = 0;
    int64_t offset = 0;  // in elements
    Access access;       // up to 4 dimensions; the outermost may repeat (stride 0); whole objects in all
    bool wait = false;   // the sequence goes on when it is done, and all before it that goes to the host
};
struct Sequence {
    std::vector<HostArgument> arguments;
    std::vector<Transfer> transfers;
};

// What a design computes is not checked before npu/check.h has accepted it. All but the sequence is what the array is
// loaded with: designs that differ in nothing else share it.
struct Design {
    std::string name;        // of what the array is loaded with: "gemm_i8"
    std::string shape = {};  // of the sequence: "512x4096x4096"
    std::string array;       // "npu1"
    std::vector<Fifo> fifos;
    std::vector<Link> links = {};
    std::vector<KernelUse> kernels;
    std::vector<Worker> workers;
    Sequence sequence;
};

// A piece of the objects of a FIFO that has a descriptor of its own at one end.
struct Part {
    int64_t offset = 0;  // in elements
    int64_t count = 0;

    bool operator==(const Part&) const = default;
};
// At the producer's end or at a consumer's: the parts of a join or of a distribution, else the whole.
std::vector<Part> parts_at(const Design& design, const Fifo& fifo, bool producer);

// The part of that name, or nullptr.
const Fifo* find_fifo(const Design& design, std::string_view name);
const KernelUse* find_kernel_use(const Design& design, std::string_view symbol);
const LocalBuffer* find_buffer(const Worker& worker, std::string_view name);

}  // namespace tandem::npu
