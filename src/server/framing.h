// Framing: where the body of a request ends, by its head alone (RFC 9112, 6.3).
#pragma once

#include "server/guard.h"

namespace tandem::server {

enum class Framing : uint8_t { no_body, length, chunks };

// Whoever stands between a client and this server may read a doubtful length another way, and take for a request of its
// own what is a body here. So all that is not plainly one length, or chunks and nothing else, is an error after which
// the connection must be closed.
Reply<Framing> framing_of(const RequestHead& head, bool is_http_1_0);

}  // namespace tandem::server
