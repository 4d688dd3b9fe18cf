// Affinity: what the requests of one conversation have in common, so that a balancer can send them to one replica.
#pragma once

#include <string>
#include <string_view>

#include "server/ask.h"

namespace tandem::server {

// The header of the answer that has it, and of the next request if the client sends it back.
inline constexpr std::string_view kPrefixHeader = "x-tandem-prefix";

// 16 hexadecimal digits that are the same for every turn of a conversation: made of its messages up to the first one of
// the user, or of how a prompt begins. Empty where there is nothing that a cache could help with.
std::string prefix_key(const Ask& ask);

}  // namespace tandem::server
