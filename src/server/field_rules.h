// FieldRule: what becomes of each field of an API's requests, so that none is without effect by accident.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "server/fields.h"

namespace tandem::server {

struct FieldRule {
    using Reader = Reply<Ok> (*)(const Fields& fields, const char* key, Ask& ask);
    enum class Treatment : uint8_t {
        read,      //
        required,  // its reader is called though it is not there
        refused,   // unless it asks for nothing
        ignored,   // it does not change what is written; docs/server.md lists it
    };

    const char* name;
    Treatment treatment;
    Reader read = nullptr;
    std::string_view neutral = {};  // as JSON: beside null, false, "", [] and {}, what asks for nothing
    std::string_view remedy = {};   // "use top_p"
};

using FieldRules = std::vector<FieldRule>;

inline FieldRule reads(const char* name, FieldRule::Reader reader) {
    return {.name = name, .treatment = FieldRule::Treatment::read, .read = reader};
}
inline FieldRule needs(const char* name, FieldRule::Reader reader) {
    return {.name = name, .treatment = FieldRule::Treatment::required, .read = reader};
}
inline FieldRule refuses(const char* name, std::string_view remedy, std::string_view neutral = {}) {
    return {.name = name, .treatment = FieldRule::Treatment::refused, .neutral = neutral, .remedy = remedy};
}
inline FieldRule ignores(const char* name) {
    return {.name = name, .treatment = FieldRule::Treatment::ignored};
}

// Readers that put a field into a member as it is: into<&Ask::stream>, into_sampling<&SamplingParams::top_p>.
template <auto Member>
Reply<Ok> into(const Fields& fields, const char* key, Ask& ask) {
    return fields.read(key, ask.*Member);
}
template <auto Member>
Reply<Ok> into_sampling(const Fields& fields, const char* key, Ask& ask) {
    return fields.read(key, ask.sampling.*Member);
}

// repeat_last_n: how many tokens penalties look at. They look at all: another number is an error where there are any.
Reply<Ok> read_penalty_window(const Fields& fields, const char* key, Ask& ask);

FieldRules joined(std::initializer_list<FieldRules> parts);

// What no rule knows: an error as OpenAI and Anthropic have it, or passed over as Ollama does.
enum class OtherFields : uint8_t { refused, ignored };

// Reads, in the order of the rules, what is there.
Reply<Ok> read_fields(const Fields& fields, const FieldRules& rules, Ask& ask,
                      OtherFields others = OtherFields::refused);

}  // namespace tandem::server
