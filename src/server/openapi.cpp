#include "server/openapi.h"

#include "base/embed.h"

EMBED(tandem_openapi, TANDEM_OPENAPI);

namespace tandem::server {

std::string_view openapi() {
    return {reinterpret_cast<const char*>(tandem_openapi_begin),
            static_cast<size_t>(tandem_openapi_end - tandem_openapi_begin)};
}

}  // namespace tandem::server
