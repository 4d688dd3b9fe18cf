// Calls of tools that are not written as JSON: what a model puts between its marks, as a name and JSON arguments.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "text/call_syntax.h"

namespace tandem::text {

// The names of tools and of their parameters that take text: what is written for them is text, whatever it looks like.
using TextParameters = std::set<std::pair<std::string, std::string>>;

struct BlockCall {
    std::string name;
    std::string arguments;  // a JSON object
};

// Whether what is between the marks of a call is no JSON.
bool is_block(const CallSyntax& syntax);

// Nothing where the block is no call of this syntax.
std::optional<BlockCall> read_call_block(const CallSyntax& syntax, std::string_view block, const TextParameters& texts);

// Of the beginning of a block, which has the whole name: the arguments that are complete, without the end of the
// object.
std::optional<BlockCall> read_cut_call_block(const CallSyntax& syntax, std::string_view block,
                                             const TextParameters& texts);

}  // namespace tandem::text
