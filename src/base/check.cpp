#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tandem {

void check_failed(const char* file, int line, const char* condition, std::string_view detail) {
    std::fprintf(stderr, "tandem: internal error at %s:%d: %s%s%.*s\n", file, line, condition,
                 detail.empty() ? "" : ": ", static_cast<int>(detail.size()), detail.data());
    std::abort();
}

}  // namespace tandem
