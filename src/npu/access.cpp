#include "npu/access.h"

#include <algorithm>

namespace tandem::npu {
namespace {

constexpr size_t kHostDimensions = 4;

bool is_contiguous(const Access& access) {
    int64_t run = 1;
    return std::all_of(access.rbegin(), access.rend(), [&](const AccessDim& dim) {
        const bool follows = dim.stride == run;
        run *= dim.size;
        return follows;
    });
}

Access without_single_steps(const Access& access) {
    Access rest = access;
    std::erase_if(rest, [](const AccessDim& dim) { return dim.size == 1; });
    return rest;
}

}  // namespace

Access compact(const Access& access) {
    Access rest = without_single_steps(access);
    return is_contiguous(rest) ? Access{} : rest;
}

HostAccess host_access(const Access& access) {
    HostAccess host{.repeat = {1, 0}, .inner = without_single_steps(access)};
    const bool contiguous = is_contiguous(host.inner);
    if (!contiguous && (host.inner.size() == kHostDimensions || host.inner.front().stride == 0)) {
        host.repeat = host.inner.front();
        host.inner.erase(host.inner.begin());
    }
    if (is_contiguous(host.inner)) host.inner = {{elements(host.inner), 1}};
    return host;
}

}  // namespace tandem::npu
