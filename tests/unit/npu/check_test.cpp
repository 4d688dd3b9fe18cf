#include "npu/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "npu/tile_use.h"
#include "unit/npu/sample_design.h"

namespace tandem::npu {
namespace {

using testing::HasSubstr;

struct Breach {
    const char* name;
    std::function<void(Design&)> make;
    const char* message;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const Breach& breach, std::ostream* out) {
    *out << breach.name;
}

std::vector<Statement>& first_loop(Design& design) {
    return std::get<Loop>(design.workers[0].body[0]).body;
}

// A core for each of `count` tiles of column 0 from row 2 on, each with FIFOs from and to a mem tile.
Design many_streams(int column_of_mem, int count) {
    Design design{.name = "streams", .array = "npu1", .fifos = {}, .kernels = {}, .workers = {}, .sequence = {}};
    const ObjectType object{Element::i32, 16};
    design.sequence.arguments = {{"x", {Element::i32, 1024}}};
    for (int i = 0; i < count; ++i) {
        const std::string name = "s" + std::to_string(i);
        const Tile core{i / 4, 2 + i % 4};
        const Tile mem{column_of_mem, 1};
        const Tile shim{column_of_mem, 0};
        design.fifos.push_back({.name = name, .producer = core, .consumers = {mem}, .object = object});
        if (i == 0) design.fifos.push_back({.name = "out", .producer = mem, .consumers = {shim}, .object = object});
        design.workers.push_back({.tile = core, .body = {Acquire{name}, Release{name}}});
    }
    Fifo& out = design.fifos[1];
    out.object.count *= count;
    Link join{.from = {}, .to = {"out"}};
    for (int i = 0; i < count; ++i) {
        join.from.push_back("s" + std::to_string(i));
        join.offsets.push_back(16 * i);
    }
    design.links = {join};
    design.sequence.transfers = {{.fifo = "out", .argument = 0, .access = {{16 * count, 1}}}};
    return design;
}

Worker& worker_on(Design& design, Tile tile) {
    for (Worker& worker : design.workers)
        if (worker.tile == tile) return worker;
    design.workers.push_back({.tile = tile, .body = {}});
    return design.workers.back();
}

// One more FIFO between two tiles, with one object in a run; what lies on a shim is moved by the host.
void connect(Design& design, Tile from, Tile to) {
    const std::string name = "more" + std::to_string(design.fifos.size());
    const ObjectType object{Element::i32, 16};
    design.fifos.push_back({.name = name, .producer = from, .consumers = {to}, .object = object});
    for (const Tile tile : {from, to}) {
        if (tile.row == 0) {
            design.sequence.transfers.push_back({.fifo = name, .argument = 1, .access = {{object.count, 1}}});
            continue;
        }
        std::vector<Statement>& body = worker_on(design, tile).body;
        body.emplace_back(Acquire{name});
        body.emplace_back(Release{name});
    }
}

void connect(Design& design, Tile from, Tile to, int times) {
    for (int i = 0; i < times; ++i) connect(design, from, to);
}

class RefusedDesign : public testing::TestWithParam<Breach> {};

TEST_P(RefusedDesign, NamesTileLimitAndValue) {
    Design design = sample_design();
    GetParam().make(design);
    const Status status = check(design);
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, HasSubstr(GetParam().message));
    EXPECT_EQ(status.error().message.find('\n'), std::string::npos);
}

const std::vector<Breach> kTiles{
    {"NoArray", [](Design& d) { d.array = "npu7"; }, "there is no array 'npu7'"},
    {"NoTile",
     [](Design& d) {
         d.fifos[0].producer = {4, 0};
     },
     "tile (4, 0), but npu1 has columns 0 to 3 and rows 0 to 5"},
    {"NoCore",
     [](Design& d) {
         d.workers[0].tile = {0, 1};
     },
     "a worker lies on mem tile (0, 1), which has no core"},
    {"TwoWorkers",
     [](Design& d) {
         d.workers[1].tile = {0, 2};
     },
     "two workers lie on compute tile (0, 2)"},
    {"BadName", [](Design& d) { d.fifos[0].name = "a b"; }, "FIFO 'a b' is no name"},
    {"SameName", [](Design& d) { d.fifos[0].name = "sums"; }, "there are two of FIFO 'sums'"},
    {"NoConsumer", [](Design& d) { d.fifos[0].consumers = {}; }, "FIFO 'in' has no consumer"},
    {"NoDepth", [](Design& d) { d.fifos[0].depth = 0; }, "FIFO 'in' has depth 0"},
    {"OddObject", [](Design& d) { d.fifos[0].object.count = 1023; },
     "objects of 1023 bytes at shim (0, 0), but DMA moves words of 4"},
    {"HostToHost",
     [](Design& d) {
         d.fifos[0].consumers = {{1, 0}};
     },
     "FIFO 'in' goes to the host at shim (1, 0)"},
    {"OddStack", [](Design& d) { d.workers[0].stack_bytes = 1000; },
     "the stack of compute tile (0, 2) is 1000 bytes: it must be a multiple of 64"},
};

const std::vector<Breach> kCapacity{
    {"TileMemory",
     [](Design& d) {
         d.workers[0].buffers.push_back({"more", {Element::i8, 60000}});
     },
     "compute tile (0, 2) needs 75392 bytes of memory and has 65536"},
    {"LinkerRoom",
     [](Design& d) {
         d.workers[0].buffers.push_back({"more", {Element::i8, 65536 - 15360 - 512}});
     },
     "compute tile (0, 2) needs 65024 bytes of memory of 65536, and 1024 are left to the linker"},
    {"SmallStack", [](Design& d) { d.workers[0].stack_bytes = 512; }, "1024 at least, since nothing notices"},
    {"Stack", [](Design& d) { d.workers[1].stack_bytes = 65536; },
     "compute tile (0, 3) needs 73728 bytes of memory and has 65536"},
    {"MemTileMemory",
     [](Design& d) {
         d.fifos[0].depth = 513;
         d.fifos[0].consumers = {{0, 1}};
     },
     "mem tile (0, 1) needs 525312 bytes of memory and has 524288"},
    {"Descriptors", [](Design& d) { d.fifos[1].depth = 20; },
     "compute tile (0, 2) needs 20 buffer descriptors and has 16"},
    {"MemTileDescriptors", [](Design& d) { d.fifos[0].depth = 50; },
     "mem tile (0, 1) needs 100 buffer descriptors and has 48"},
    {"EvenDescriptors", [](Design& d) { d.fifos[0].depth = 24; },
     "mem tile (0, 1) needs 48 buffer descriptors for every second DMA channel and has 24"},
    {"ChannelsIn", [](Design& d) { d = many_streams(0, 8); },
     "mem tile (0, 1) needs 8 DMA channels for what arrives and has 6"},
    {"Locks",  // of a FIFO in the memory of a core, which needs no channel
     [](Design& d) {
         connect(d, {0, 2}, {0, 3}, 7);
     },
     "compute tile (0, 2) needs 18 locks and has 16"},
    {"CoreChannelsIn",
     [](Design& d) {
         connect(d, {2, 2}, {0, 2}, 2);
     },
     "compute tile (0, 2) needs 3 DMA channels for what arrives and has 2"},
    {"CoreChannelsOut",
     [](Design& d) {
         connect(d, {0, 3}, {2, 3}, 2);
     },
     "compute tile (0, 3) needs 3 DMA channels for what leaves and has 2"},
    {"ShimChannelsIn",
     [](Design& d) {
         connect(d, {0, 4}, {0, 0}, 2);
     },
     "shim (0, 0) needs 3 DMA channels for what arrives and has 2"},
    {"ShimChannelsOut",
     [](Design& d) {
         connect(d, {0, 0}, {0, 4}, 2);
     },
     "shim (0, 0) needs 3 DMA channels for what leaves and has 2"},
    {"MemTileChannelsOut",
     [](Design& d) {
         Link split{.from = {"whole"}, .to = {}};
         d.fifos.push_back(
             {.name = "whole", .producer = {0, 0}, .consumers = {{0, 1}}, .object = {Element::i32, 6 * 16}});
         d.sequence.transfers.push_back({.fifo = "whole", .argument = 1, .access = {{6 * 16, 1}}});
         for (int i = 0; i < 6; ++i) {
             const Tile core{1 + i / 4, 2 + i % 4};
             const std::string name = "part" + std::to_string(i);
             d.fifos.push_back({.name = name, .producer = {0, 1}, .consumers = {core}, .object = {Element::i32, 16}});
             d.workers.push_back({.tile = core, .body = {Acquire{name}, Release{name}}});
             split.to.push_back(name);
             split.offsets.push_back(16 * i);
         }
         d.links.push_back(split);
     },
     "mem tile (0, 1) needs 7 DMA channels for what leaves and has 6"},
};

const std::vector<Breach> kAccesses{
    {"Dimensions",
     [](Design& d) {
         d.fifos[2].consumers = {{2, 2}};
         d.workers[1].tile = {2, 2};
         d.fifos[3].producer = {2, 2};
         d.fifos[2].to_stream = {{4, 256}, {8, 8}, {4, 64}, {8, 1}};
     },
     "FIFO 'sums' at compute tile (0, 2) walks over 4 dimensions, but descriptors have 3 there"},
    {"MemTileDimensions",
     [](Design& d) {
         d.fifos[1].to_stream = {{2, 512}, {2, 256}, {8, 8}, {4, 64}, {8, 1}};
     },
     "FIFO 'tiled' at mem tile (0, 1) walks over 5 dimensions, but descriptors have 4 there"},
    {"MemTileWords", [](Design& d) { d.fifos[0].object.count = d.fifos[1].object.count = 524288; },
     "FIFO 'in' at mem tile (0, 1) has objects of 131072 words, but descriptors move 131071"},
    {"MemTileSteps",
     [](Design& d) {
         d.fifos[0].object.count = d.fifos[1].object.count = 16384;
         d.fifos[1].to_stream = {{4, 4}, {1024, 16}, {4, 1}};
     },
     "FIFO 'tiled' at mem tile (0, 1) has a dimension of 1024 steps, but descriptors take 1023"},
    {"Strides",
     [](Design& d) {
         d.fifos[0].object.count = d.fifos[1].object.count = 65520;
         d.fifos[1].to_stream = {};
         d.fifos[1].from_stream = {{{2, 32772}, {2, 16}, {16380, 1}}};
     },
     "FIFO 'tiled' at compute tile (0, 2) has steps of 8193 words, but descriptors take 8192"},
    {"OutOfBounds",
     [](Design& d) {
         d.fifos[1].to_stream = {{4, 257}, {8, 8}, {4, 64}, {8, 1}};
     },
     "FIFO 'tiled' at mem tile (0, 1) walks to element 1026, but there are 1024"},
    {"NotAll",
     [](Design& d) {
         d.fifos[1].to_stream = {{4, 256}, {8, 8}, {4, 64}, {4, 1}};
     },
     "walks over 512 of the 1024 elements of an object"},
    {"Granularity",
     [](Design& d) {
         d.fifos[1].to_stream = {{512, 1}, {2, 512}};
     },
     "has steps of 1 bytes, but DMA addresses words of 4"},
    {"InnerRun",
     [](Design& d) {
         d.fifos[1].to_stream = {{256, 4}, {2, 1}};
     },
     "innermost run of 2 i8 with stride 1: runs are contiguous and of whole words of 4 bytes"},
    {"ZeroStride",
     [](Design& d) {
         d.fifos[1].to_stream = {{2, 0}, {512, 1}};
     },
     "has 2 steps of 0 elements: only the outermost dimension of a transfer may repeat"},
    {"Steps",
     [](Design& d) {
         d.fifos[0].object.count = d.fifos[1].object.count = 2048;
         d.fifos[1].to_stream = {};
         d.fifos[1].from_stream = {{{2, 4}, {256, 8}, {4, 1}}};
     },
     "FIFO 'tiled' at compute tile (0, 2) has a dimension of 256 steps, but descriptors take 255"},
    {"Words",
     [](Design& d) {
         d.fifos[0].object.count = d.fifos[1].object.count = 65536;
         d.fifos[1].to_stream = {};
     },
     "FIFO 'tiled' at compute tile (0, 2) has objects of 16384 words, but descriptors move 16383"},
    {"JoinedAccess",  // over the whole object: there is a descriptor for each part
     [](Design& d) {
         d = many_streams(0, 4);
         d.fifos[1].to_stream = {{8, 8}, {8, 1}};
     },
     "each part of FIFO 'out' at mem tile (0, 1) walks to element 63, but there are 16"},
    {"ShimAccess",
     [](Design& d) {
         d.fifos[0].to_stream = {{1024, 1}};
     },
     "FIFO 'in' at shim (0, 0) has an access"},
};

const std::vector<Breach> kTransfers{
    {"Argument", [](Design& d) { d.sequence.transfers[0].argument = 2; }, "names argument 2 of 2"},
    {"Fifo", [](Design& d) { d.sequence.transfers[0].fifo = "none"; }, "FIFO 'none', which is not there"},
    {"InnerFifo", [](Design& d) { d.sequence.transfers[0].fifo = "sums"; },
     "FIFO 'sums', which neither comes from the host nor goes to it"},
    {"Offset", [](Design& d) { d.sequence.transfers[0].offset = 2; }, "begins at byte 2, but DMA addresses words of 4"},
    {"Beyond", [](Design& d) { d.sequence.transfers[0].offset = 4; }, "walks to element 8191, but there are 8188"},
    {"Dimensions",
     [](Design& d) {
         d.sequence.transfers[0].access = {{2, 4096}, {2, 2048}, {2, 1024}, {2, 512}, {512, 1}};
     },
     "at shim (0, 0) walks over 5 dimensions, but descriptors have 4 there"},
    {"Repeat",
     [](Design& d) {
         d.sequence.transfers[0].access = {{65, 0}, {1024, 1}};
     },
     "repeats 65 times, but descriptors take 64"},
    {"Stride",
     [](Design& d) {
         d.sequence.arguments[0].type.count = 10'000'000;
         d.sequence.transfers[0].access = {{2, 8'000'000}, {4, 1024}, {1024, 1}};
     },
     "has steps of 2000000 words, but descriptors take 1048576"},
    {"Size",
     [](Design& d) {
         d.sequence.arguments[0].type.count = 100'000;
         d.sequence.transfers[0].access = {{1024, 32}, {8, 1}};
     },
     "has a dimension of 1024 steps, but descriptors take 1023"},
    {"HalfObject",
     [](Design& d) {
         d.sequence.transfers[0].access = {{512, 1}};
     },
     "moves 512 bytes, which is no multiple of its objects of 1024"},
};

const std::vector<Breach> kWorkers{
    {"Depth",
     [](Design& d) {
         first_loop(d)[0] = Acquire{"tiled", 3};
     },
     "compute tile (0, 2) acquires 3 objects of FIFO 'tiled' and then has 3, but its depth is 2"},
    {"ReleasesTooMany",
     [](Design& d) {
         first_loop(d)[4] = Release{"tiled", 3};
     },
     "releases 3 objects of FIFO 'tiled', but has 2"},
    {"Unbalanced",
     [](Design& d) {
         first_loop(d)[4] = Release{"tiled", 1};
     },
     "a loop that begins with 0 and ends with 1 objects of FIFO 'tiled'"},
    {"Keeps", [](Design& d) { d.workers[1].body.emplace_back(Acquire{"sums"}); }, "ends with 1 objects of FIFO 'sums'"},
    {"NotHeld", [](Design& d) { first_loop(d).erase(first_loop(d).begin()); },
     "uses object 0 of FIFO 'tiled', but has acquired 0"},
    {"Elsewhere", [](Design& d) { first_loop(d)[0] = Acquire{"out"}; }, "names FIFO 'out', which does not come there"},
    {"NoFifo", [](Design& d) { first_loop(d)[0] = Acquire{"none"}; }, "names FIFO 'none', which is not there"},
    {"NoKernel", [](Design& d) { std::get<Call>(first_loop(d)[2]).kernel = "none"; },
     "calls 'none', which is no kernel"},
    {"NoBuffer", [](Design& d) { d.workers[0].buffers.clear(); }, "has no buffer 'total'"},
    {"Arguments", [](Design& d) { std::get<Call>(first_loop(d)[2]).arguments.pop_back(); },
     "with 3 arguments, but it takes 4"},
    {"Number", [](Design& d) { std::get<Call>(first_loop(d)[2]).arguments[0] = 1; },
     "with a number as argument 0, but it takes a buffer"},
    {"BufferType", [](Design& d) { std::get<Call>(first_loop(d)[2]).arguments[0] = BufferArgument{"total"}; },
     "with 1024 i32 as argument 0, but it takes 1024 i8"},
    {"Mmul", [](Design& d) { d.kernels[0].mmul = "8x8x8 i8"; },
     "the worker of compute tile (0, 2) calls 'matmul_i8', which multiplies in the shape '8x8x8 i8': cores of npu1 "
     "have "
     "others (4x8x4 i8, "},
    {"Rounds", [](Design& d) { std::get<Loop>(d.workers[0].body[0]).count = 0; }, "a loop of 0 rounds"},
    {"Counts", [](Design& d) { std::get<Loop>(d.workers[0].body[0]).count = 5; },
     "FIFO 'tiled' has 8 objects in a run, but a round of compute tile (0, 2) takes 10"},
    {"Drained",
     [](Design& d) {
         d.sequence.transfers[1].access = {{3072, 1}};
     },
     "FIFO 'out' has 3 objects in a run, but a round of compute tile (0, 3) takes 4"},
    {"NoCounter", [](Design& d) { std::get<Loop>(d.workers[0].body[0]).counter = "none"; },
     "counts a loop by buffer 'none', which is not there"},
    {"CounterType",
     [](Design& d) {
         d.workers[0].buffers.push_back({"bytes", {Element::i8, 64}});
         std::get<Loop>(d.workers[0].body[0]).counter = "bytes";
     },
     "counts a loop by buffer 'bytes' of i8: it must be of i32"},
    {"Nesting",
     [](Design& d) {
         for (int i = 0; i < 20; ++i) d.workers[0].body = {Loop{.count = 1, .body = d.workers[0].body}};
     },
     "nests loops deeper than 8"},
};

const std::vector<Breach> kLinks{
    {"NoFifo", [](Design& d) { d.links[0].from = {"none"}; }, "a link names FIFO 'none', which is not there"},
    {"NotMem", [](Design& d) { d.links[0].to = {"sums"}; }, "FIFO 'sums' is linked at compute tile (0, 2)"},
    {"NotLinked", [](Design& d) { d.links.clear(); }, "FIFO 'in' comes to mem tile (0, 1) with 0 links"},
    {"Sizes", [](Design& d) { d.fifos[0].object.count = 2048; }, "linked with objects of 2048 and 1024 bytes"},
    {"Offsets",
     [](Design& d) {
         d = many_streams(0, 2);
         d.links[0].offsets = {0, 8};
     },
     "part 's1' of FIFO 'out' begins at element 8, but the part before it ends at 16"},
    {"Sum",
     [](Design& d) {
         d = many_streams(0, 2);
         d.fifos[1].object.count = 64;
     },
     "the parts of FIFO 'out' have 32 elements, but its objects have 64"},
};

std::string name_of(const testing::TestParamInfo<Breach>& info) {
    return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Tiles, RefusedDesign, testing::ValuesIn(kTiles), name_of);
INSTANTIATE_TEST_SUITE_P(Capacity, RefusedDesign, testing::ValuesIn(kCapacity), name_of);
INSTANTIATE_TEST_SUITE_P(Accesses, RefusedDesign, testing::ValuesIn(kAccesses), name_of);
INSTANTIATE_TEST_SUITE_P(Transfers, RefusedDesign, testing::ValuesIn(kTransfers), name_of);
INSTANTIATE_TEST_SUITE_P(Workers, RefusedDesign, testing::ValuesIn(kWorkers), name_of);
INSTANTIATE_TEST_SUITE_P(Links, RefusedDesign, testing::ValuesIn(kLinks), name_of);

TEST(Check, TakesADesignWithinAllLimits) {
    const Status status = check(sample_design());
    EXPECT_TRUE(status) << status.error().message;
    const Status joined = check(many_streams(0, 4));
    EXPECT_TRUE(joined) << joined.error().message;
}

TEST(Check, TakesLinearTransfersOfAnyLengthAndRepeatsOfThem) {
    Design design = sample_design();
    design.sequence.transfers[0].access = {{8, 0}, {1, 0}, {1024, 1}};
    EXPECT_TRUE(check(design));
    design.sequence.transfers[0].access = {{2, 4096}, {4096, 1}};
    EXPECT_TRUE(check(design));
}

TEST(Check, FindsAWayForEveryStreamOrSaysWhereNoneIsLeft) {
    Array narrow = *find_array("npu1");
    EXPECT_TRUE(check(many_streams(1, 4), narrow));  // across columns
    EXPECT_TRUE(check(many_streams(0, 6), narrow));  // two of them by the shims
    narrow.shim_ports.east = narrow.shim_ports.west = 0;
    narrow.compute_ports.south = 1;
    const Status status = check(many_streams(0, 4), narrow);
    ASSERT_FALSE(status);
    EXPECT_THAT(
        status.error().message,
        HasSubstr("FIFO 's1' finds no way from compute tile (0, 3) to mem tile (0, 1): all 1 streams from compute "
                  "tile (0, 2) to mem tile (0, 1) are taken"));
}

TEST(TileUse, CountsObjectsWhereTheyLie) {
    const Design design = sample_design();
    const auto use = tile_use(design, *find_array("npu1"));
    // Stack, the local buffer, two tiled objects, and the sums for the neighbour, which reaches them.
    EXPECT_EQ(use.at({0, 2}).memory_bytes, 1024 + 4096 + 2 * 1024 + 2 * 4096);
    EXPECT_EQ(use.at({0, 3}).memory_bytes, 1024 + 2 * 4096);
    EXPECT_EQ(use.at({0, 1}).memory_bytes, 2 * 1024);  // a link has its objects once
    EXPECT_EQ(use.at({0, 1}).descriptors, 4);
    EXPECT_EQ(use.at({0, 2}).descriptors, 2);
    EXPECT_EQ(use.at({0, 2}).channels_in, 1);
    EXPECT_EQ(use.at({0, 2}).channels_out, 0);  // the sums stay in memory
    EXPECT_EQ(use.at({0, 3}).channels_out, 1);
    EXPECT_EQ(use.at({0, 2}).locks, 4);
}

}  // namespace
}  // namespace tandem::npu
