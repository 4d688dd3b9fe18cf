// The bounds that keep any grammar or schema, however it is written, from stalling the program or exhausting its
// memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::text::grammar {

// Of the source.
inline constexpr size_t kMaxSourceBytes = 512 * 1024;
inline constexpr int kMaxNesting = 64;              // groups in a grammar or a pattern, values in a schema
inline constexpr size_t kMaxObjectMembers = 2'000;  // keys of one JSON object in a schema
inline constexpr size_t kMaxMembers = 50'000;       // and of all together
inline constexpr int kMaxSchemaVisits = 20'000;     // schemas translated, merged or compared: a $ref may be met again

// Of what is compiled from it.
inline constexpr size_t kMaxNodes = 200'000;  // of the grammar, with the bytes of its literals
inline constexpr size_t kMaxRules = 20'000;
inline constexpr size_t kMaxNfaStates = 200'000;
inline constexpr size_t kMaxStates = 40'000;           // of the automaton
inline constexpr size_t kMaxSubsetWork = 250'000;      // states looked at while it is made deterministic
inline constexpr size_t kMaxUnrolledStates = 128;      // a longer repetition is counted when it runs
inline constexpr size_t kMaxInlinedStates = 24;        // a smaller rule is copied to where it is used
inline constexpr uint32_t kMaxCount = 1'000'000'000U;  // of a repetition

// Of a run. Real grammars have a handful of readings of a text at once.
inline constexpr size_t kMaxItems = 512;
inline constexpr size_t kMaxLocalStates = 32'768;
inline constexpr size_t kMaxMaskBytes = size_t{64} << 20;  // kept token masks of one grammar

}  // namespace tandem::text::grammar
