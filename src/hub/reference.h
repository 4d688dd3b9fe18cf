// Reference: which model of the Hub, or which address, a name means.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem::hub {

struct Reference {
    std::string repo = {};          // "org/name" of the Hub; empty: a plain address
    std::string tag = {};           // a quantization or the name of a file; empty: the one that is chosen for people
    std::string revision = "main";  // a branch, a tag or a commit
    std::string url = {};           // of a plain address
};

// "org/name[:TAG]", the same after "hf.co/" or the like, the address of a page or a file of the Hub, or any other
// http(s) address of a .gguf file. Nothing when the text does not look like one of these; an error when it looks so and
// is wrong. `endpoint` is the Hub's or its mirror's.
Result<std::optional<Reference>> parse_reference(std::string_view text, std::string_view endpoint);

// As it is shown and typed again: "org/name:TAG".
std::string to_string(const Reference& reference);

// Of a name that comes from elsewhere: "org/name" as the Hub allows it.
bool is_repo_name(std::string_view text);
// A path inside of a repository that stays there: no "..", not absolute, nothing empty.
bool is_inner_path(std::string_view path);

}  // namespace tandem::hub
