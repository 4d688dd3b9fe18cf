// How the blocks of each weight type become vectors of bytes and vectors of scales, for the current SIMD target. What
// the bits mean is told in format/quant.h.
#if defined(TANDEM_CPU_SIMD_INT8_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_CPU_SIMD_INT8_WEIGHTS_INL_H_
#undef TANDEM_CPU_SIMD_INT8_WEIGHTS_INL_H_
#else
#define TANDEM_CPU_SIMD_INT8_WEIGHTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/simd/int8_dot-inl.h"
#include "cpu/simd/unroll.h"
#include "format/quant.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// A weight type in the words of these kernels:
//
//   kRun      elements that share a scale; x is rounded in the same runs
//   kRuns     runs of a chunk, the piece of a row whose scales are made at once
//   kBlocks   blocks of the file in a chunk
//   kOffset   what dot4() wants to know: a byte is q + kOffset, or, for 0, q as a signed number
//   kMinimum  an element is scale * byte + minimum, where otherwise it is scale * (byte - kOffset)
//   kPaired   for few rows of x, bytes come in pairs of vectors: see load_pair
//   scales    of the runs of a chunk, the first `count` of its blocks being there
//   load      vector v of a chunk: the bytes of elements [4 * kLanes * v, 4 * kLanes * (v + 1))
//   kAlternate  for few rows of x, load_few(block, v) gives vectors of which every second has the high nibbles of the
//   one
//             before: runs 0 and 2, 1 and 3, and so on, and x lies in that order then
//   load_pair the bytes of kLanes / 4 blocks, the first halves of all of them and the second halves, which is how
//             nibbles lie. Both make up the same lanes, so there is half as much to scale. x lies in the same order
//             then: by groups of kGroup blocks, first halves before second ones.
//   kPacked   other than 0: for many rows of x, load_packed(chunk, v) gives bytes of two elements, and split() makes
//   the
//             bytes of both of it, the second kPacked words of 32 bits behind the first. These have no load.
//
// Some have load_scaled(blocks), which gives the bytes of kGroup blocks as load_pair does, and in each lane of their
// products the scale that it needs.
template <int kCount>
struct RunScales {
    VF32 scale[kCount];
    VF32 minimum[kCount];
};

// The scales of a chunk take one vector, or more where vectors are short.
template <class Weights>
inline constexpr int kScaleVectors = Weights::kRuns > kLanes ? Weights::kRuns / kLanes : 1;

template <class Weights>
using ScalesOf = RunScales<kScaleVectors<Weights>>;

// Where the scales of a chunk fill half a vector, its minima are the other half, without their minus.
template <class Weights>
inline constexpr bool kMinimaFollow = Weights::kMinimum && 2 * Weights::kRuns == kLanes;

inline constexpr int kGroup = 4;

template <class Weights>
inline constexpr bool kScalesInLanes = requires(const typename Weights::Block* blocks) {
    Weights::load_scaled(blocks);
};
// Lanes that a run of few rows of x has its scale in, one where lanes find it by themselves.
template <class Weights>
inline constexpr int kLanesOfRun = kScalesInLanes<Weights> ? kLanes / kGroup : 1;

inline constexpr int kBytes = 4 * kLanes;  // of a vector

HWY_INLINE VU8 set_byte(int byte) {
    return hn::Set(DU8(), static_cast<uint8_t>(byte));
}

// All bytes shifted; what comes from the neighbour is for the caller to mask.
template <int kBits>
HWY_INLINE VU8 shift_right(VU8 v) {
    const hn::ScalableTag<uint16_t> d;
    return hn::BitCast(DU8(), hn::ShiftRight<kBits>(hn::BitCast(d, v)));
}
// Bit `from` becomes bit `to`.
HWY_INLINE VU8 move_bit(VU8 v, int from, int to) {
    const hn::ScalableTag<uint16_t> d;
    const auto words = hn::BitCast(d, v);
    return hn::BitCast(DU8(), from < to ? hn::ShiftLeftSame(words, to - from) : hn::ShiftRightSame(words, from - to));
}

#if HWY_CAP_GE512
// 32 bytes, twice.
HWY_INLINE VU8 load_twice(const uint8_t* bytes) {
    return VU8{_mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)))};
}
// Every byte of the lower half rotated left by `low` bits, of the upper by `high`; bits that cross are to be masked.
HWY_INLINE VU8 rotate_halves(VU8 v, int low, int high) {
    const __m512i bits = _mm512_inserti64x4(_mm512_set1_epi32(low & 31), _mm256_set1_epi32(high & 31), 1);
    return VU8{_mm512_rolv_epi32(v.raw, bits)};
}
#endif

// ---- Blocks of 32

// Four words of 16 bits in one: word(first) to word(first + 3).
template <class Word>
HWY_INLINE uint64_t four_words(int first, const Word& word) {
    uint64_t bits = 0;
    TANDEM_UNROLL
    for (int i = 0; i < 4; ++i) bits |= static_cast<uint64_t>(word(first + i)) << (16 * i);
    return bits;
}

// A word of 16 bits of kLanes blocks, or of `count`: what is there for the others is finite, for x has no scales there.
template <class Block, class WordOf>
HWY_INLINE auto load_words(const Block* blocks, int count, const WordOf& word_of) {
    const auto four = [&](int first) HWY_ATTR {
        if (first >= count) return uint64_t{0};
        return four_words(first, [&](int i) HWY_ATTR { return word_of(blocks[std::min(i, count - 1)]); });
    };
    const hn::Full128<uint64_t> pair;
#if HWY_CAP_GE512
    const auto low = hn::InterleaveLower(hn::Set(pair, four(0)), hn::Set(pair, four(4)));
    const auto high = hn::InterleaveLower(hn::Set(pair, four(8)), hn::Set(pair, four(12)));
    return hn::Combine(hn::Full256<uint64_t>(), high, low);
#elif HWY_CAP_GE256
    return hn::InterleaveLower(hn::Set(pair, four(0)), hn::Set(pair, four(4)));
#else
    return hn::LowerHalf(hn::Set(pair, four(0)));
#endif
}

// The f16 numbers `kField`, as before.
template <class Block, uint16_t Block::*kField>
HWY_INLINE VF32 load_halves(const Block* blocks, int count) {
    const hn::Rebind<hwy::float16_t, DF32> d16;
    const auto words = load_words(blocks, count, [](const Block& block) { return block.*kField; });
    return hn::PromoteTo(DF32(), hn::BitCast(d16, words));
}

template <class B>
struct BlocksOf32 {
    using Block = B;
    static constexpr int kRun = 32;
    static constexpr int kRuns = kLanes;
    static constexpr int kBlocks = kLanes;
    static constexpr bool kMinimum = false;
    static constexpr bool kPaired = false;
    static constexpr bool kAlternate = false;
    static constexpr int kPacked = 0;

  protected:
    // The first block of vector v, of which vectors of 128 bits have two.
    static HWY_INLINE const Block* block_of(const Block* blocks, int v) { return blocks + v * kBytes / 32; }
};

template <class B>
struct Blocks32 : BlocksOf32<B> {
    static HWY_INLINE RunScales<1> scales(const B* blocks, int count) {
        return {{load_halves<B, &B::d>(blocks, count)}, {hn::Zero(DF32())}};
    }
};

struct BytePair {
    VU8 first;
    VU8 second;
};

struct ScaledBytes {
    BytePair bytes;
    VF32 scale;
};

#if HWY_TARGET == HWY_AVX3_DL
// Where the bytes `qs` of four blocks are, in 64 bytes from their beginning and as many to their end.
template <class Block>
struct SideBySide {
    static constexpr int kSecond = 4 * sizeof(Block) - 64;
    static_assert(kSecond >= 0 && kSecond <= 64);
    alignas(64) uint8_t byte[64] = {};

    constexpr SideBySide() {
        for (int i = 0; i < 64; ++i) {
            const int at = i / 16 * static_cast<int>(sizeof(Block)) + static_cast<int>(offsetof(Block, qs)) + i % 16;
            byte[i] = static_cast<uint8_t>(at < 64 ? at : 64 + at - kSecond);
        }
    }
};

// Two loads that lie within the blocks, and a permutation of both: loads of 512 bits are what is short here.
struct TwoLoads {
    VU8 low;
    VU8 high;

    template <class Block>
    explicit HWY_INLINE TwoLoads(const Block* blocks) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(blocks);
        low = hn::LoadU(DU8(), bytes);
        high = hn::LoadU(DU8(), bytes + SideBySide<Block>::kSecond);
    }

    template <class Block>
    HWY_INLINE VU8 side_by_side() const {
        static constexpr SideBySide<Block> kFrom;
        return VU8{_mm512_permutex2var_epi8(low.raw, hn::Load(DU8(), kFrom.byte).raw, high.raw)};
    }
};

// The word of 16 bits that the block of each lane begins with, of four blocks that begin in 64 bytes.
template <class Block>
struct Beginnings {
    alignas(64) uint16_t word[32] = {};

    constexpr Beginnings() {
        static_assert(3 * sizeof(Block) + 2 <= 64 && sizeof(Block) % 2 == 0);
        for (int lane = 0; lane < kLanes; ++lane)
            word[lane] = static_cast<uint16_t>(lane / 4 * static_cast<int>(sizeof(Block) / 2));
    }
};

// In each lane the f16 that its block begins with.
template <class Block>
HWY_INLINE VF32 scales_in_lanes(VU8 blocks) {
    static_assert(offsetof(Block, d) == 0);
    static constexpr Beginnings<Block> kFrom;
    const __m512i words = _mm512_permutexvar_epi16(_mm512_load_si512(kFrom.word), blocks.raw);
    return VF32{_mm512_cvtph_ps(_mm512_castsi512_si256(words))};
}
#endif

HWY_INLINE BytePair nibble_pair(VU8 q) {
    return {hn::And(q, set_byte(0x0f)), hn::And(shift_right<4>(q), set_byte(0x0f))};
}

// The 16 bytes `qs` of kLanes / 4 blocks side by side.
template <class Block>
HWY_INLINE VU8 load_side_by_side(const Block* blocks) {
    [[maybe_unused]] const DU8 d;
#if HWY_TARGET == HWY_AVX3_DL
    return TwoLoads(blocks).side_by_side<Block>();
#elif HWY_CAP_GE512
    const auto load = [&](int i) HWY_ATTR { return hn::LoadDup128(d, blocks[i].qs).raw; };
    const __m512i first = _mm512_mask_blend_epi64(0x0c, load(0), load(1));
    return VU8{_mm512_mask_blend_epi64(0xf0, first, _mm512_mask_blend_epi64(0xc0, load(2), load(3)))};
#elif HWY_CAP_GE256
    return hn::ConcatUpperLower(d, hn::LoadDup128(d, blocks[1].qs), hn::LoadDup128(d, blocks[0].qs));
#else
    return hn::LoadU(d, blocks->qs);
#endif
}

// Types whose four low bits lie as in q4_0.
template <class Base>
struct Nibbles : Base {
    using typename Base::Block;
    static constexpr bool kPaired = true;
    static constexpr int kPacked = 4;

    static HWY_INLINE VU8 load_packed(const Block* blocks, int v) {
        return load_side_by_side(blocks + v * (kLanes / 4));
    }
    static HWY_INLINE BytePair split(VU8 q) { return nibble_pair(q); }
    static HWY_INLINE BytePair load_pair(const Block* blocks, int v) { return split(load_packed(blocks, v)); }
};

// As before, with a fifth bit for each element in qh.
template <class Base>
struct FiveBits : Nibbles<Base> {
    using typename Base::Block;
    static constexpr int kPacked = 0;

    static HWY_INLINE VU8 load(const Block* blocks, int v) {
        const Block* block = Base::block_of(blocks, v);
        const auto word = [&](int i) HWY_ATTR { return word_of(block[i / 2].qh + 2 * (i % 2)); };
        uint64_t bits = word(kLanes == 4 ? v % 2 : 0);
        if constexpr (kLanes > 4) bits |= static_cast<uint64_t>(word(1)) << 16;
        if constexpr (kLanes > 8) bits = four_words(0, word);
        return set_fifth(nibbles(blocks, v), bits);
    }

    static HWY_INLINE BytePair load_pair(const Block* blocks, int v) {
        const BytePair q = Nibbles<Base>::load_pair(blocks, v);
        const Block* pair = blocks + v * (kLanes / 4);
        return {set_fifth(q.first, words(pair, 0)), set_fifth(q.second, words(pair, 2))};
    }

  private:
    static HWY_INLINE VU8 nibbles(const Block* blocks, int v) {
        const DU8 d;
        const Block* block = Base::block_of(blocks, v);
#if HWY_CAP_GE256
        // 16 bytes hold the first half of a block in their low nibbles, the second in their high ones: every 16 bytes
        // are there twice, and the second time they are shifted.
        const hn::ScalableTag<uint32_t> d32;
        alignas(64) static constexpr uint32_t kShift[16] = {0, 0, 0, 0, 4, 4, 4, 4, 0, 0, 0, 0, 4, 4, 4, 4};
        VU8 q = hn::LoadDup128(d, block[0].qs);
#if HWY_CAP_GE512
        q = hn::ConcatUpperLower(d, hn::LoadDup128(d, block[1].qs), q);
#endif
        q = hn::BitCast(d, hn::Shr(hn::BitCast(d32, q), hn::Load(d32, kShift)));
#else
        VU8 q = hn::LoadU(d, block->qs);
        if (v % 2 == 1) q = shift_right<4>(q);
#endif
        return hn::And(q, set_byte(0x0f));
    }

    static HWY_INLINE uint16_t word_of(const uint8_t* bytes) {
        uint16_t bits = 0;
        std::memcpy(&bits, bytes, 2);
        return bits;
    }
    // The 16 bits at `at` of the qh of all blocks of a pair.
    static HWY_INLINE uint64_t words(const Block* blocks, int at) {
        const auto word = [&](int i) HWY_ATTR { return word_of(blocks[i].qh + at); };
        if constexpr (kLanes == 16) return four_words(0, word);
        uint64_t bits = word(0);
        if constexpr (kLanes == 8) bits |= static_cast<uint64_t>(word(1)) << 16;
        return bits;
    }
    static HWY_INLINE VU8 set_fifth(VU8 q, uint64_t bits) {
        const auto set = hn::LoadMaskBits(DU8(), reinterpret_cast<const uint8_t*>(&bits));
        return hn::Or(q, hn::IfThenElseZero(set, set_byte(16)));
    }
};

template <class B>
struct Blocks32Minimum : BlocksOf32<B> {
    using Block = B;
    static constexpr int kOffset = 1;  // bytes are unsigned
    static constexpr bool kMinimum = true;

    static HWY_INLINE RunScales<1> scales(const Block* blocks, int count) {
        return {{load_halves<Block, &Block::d>(blocks, count)}, {load_halves<Block, &Block::m>(blocks, count)}};
    }
};

struct WeightsQ8_0 : Blocks32<format::BlockQ8_0> {
    static constexpr int kOffset = kQ8Offset;

    static HWY_INLINE VU8 load(const Block* blocks, int v) {
        const Block* block = block_of(blocks, v);
#if HWY_CAP_GE512
        const hn::Half<DI8> half;
        const VI8 q = hn::Combine(DI8(), hn::LoadU(half, block[1].qs), hn::LoadU(half, block[0].qs));
#else
        const VI8 q = hn::LoadU(DI8(), block->qs + v * kBytes % 32);
#endif
        return hn::Xor(hn::BitCast(DU8(), q), set_byte(kOffset));
    }
};

// As `Weights`, whose scales are f16 in front of four low bits.
template <class Weights>
struct ScaledNibbles : Weights {
    using typename Weights::Block;
#if HWY_TARGET == HWY_AVX3_DL
    static HWY_INLINE ScaledBytes load_scaled(const Block* blocks) {
        const TwoLoads loaded(blocks);
        return {Weights::split(loaded.side_by_side<Block>()), scales_in_lanes<Block>(loaded.low)};
    }
#endif
};

struct PlainQ4_0 : Nibbles<Blocks32<format::BlockQ4_0>> {
    static constexpr int kOffset = 8;
};
using WeightsQ4_0 = ScaledNibbles<PlainQ4_0>;
struct WeightsQ4_1 : Nibbles<Blocks32Minimum<format::BlockQ4_1>> {};
struct WeightsQ5_0 : FiveBits<Blocks32<format::BlockQ5_0>> {
    static constexpr int kOffset = 16;
};
struct WeightsQ5_1 : FiveBits<Blocks32Minimum<format::BlockQ5_1>> {};

// Bytes that stand for nibbles: the numbers of `table` plus the offset.
template <int kOffset>
HWY_INLINE VU8 look_up(const int8_t (&table)[16], VU8 nibbles) {
    const VU8 bytes = hn::BitCast(DU8(), hn::LoadDup128(DI8(), table));
    return hn::TableLookupBytes(hn::Add(bytes, set_byte(kOffset)), nibbles);
}

// Types whose nibbles stand for the numbers of a table.
template <class Base, const int8_t (&kTable)[16], int kTableOffset>
struct TableOf : Base {
    using typename Base::Block;
    static constexpr int kOffset = kTableOffset;

    static HWY_INLINE BytePair split(VU8 q) {
        const BytePair nibbles = nibble_pair(q);
        return {look_up<kOffset>(kTable, nibbles.first), look_up<kOffset>(kTable, nibbles.second)};
    }
    static HWY_INLINE BytePair load_pair(const Block* blocks, int v) { return split(Base::load_packed(blocks, v)); }
};

// Numbers of 8 bits, with the offset that q8_0 has.
using WeightsIQ4_NL = ScaledNibbles<TableOf<Nibbles<Blocks32<format::BlockIQ4_NL>>, format::kIq4Values, kQ8Offset>>;

// The scale is a power of two.
struct BlocksMXFP4 : BlocksOf32<format::BlockMXFP4> {
    static HWY_INLINE RunScales<1> scales(const Block* blocks, int count) {
        const hn::Rebind<uint16_t, DF32> d16;
        const DI32 d;
        const auto words = load_words(blocks, count, [](const Block& block) { return uint16_t{block.e}; });
        const VI32 e = hn::PromoteTo(d, hn::BitCast(d16, words));
        const VI32 normal = hn::ShiftLeft<23>(hn::Sub(e, hn::Set(d, 1)));
        const VI32 subnormal = hn::ShiftLeft<21>(hn::Add(e, hn::Set(d, 1)));  // 2^-128 and 2^-127
        const VI32 bits = hn::IfThenElse(hn::Lt(e, hn::Set(d, 2)), subnormal, normal);
        return {{hn::BitCast(DF32(), bits)}, {hn::Zero(DF32())}};
    }
};
struct WeightsMXFP4 : TableOf<Nibbles<BlocksMXFP4>, format::kFp4Values, 12> {};

#endif

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
