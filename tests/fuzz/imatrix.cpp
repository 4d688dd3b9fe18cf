// Reads any bytes as an importance matrix, in both of its formats, and touches all that it gives.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "format/imatrix.h"

namespace tandem::format {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto imatrix = Imatrix::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    if (!imatrix) {
        CHECK(!imatrix.error().message.empty());
        return 0;
    }
    CHECK(!imatrix->entries.empty());
    for (const auto& [name, entry] : imatrix->entries) {
        CHECK(!name.empty() && imatrix->find(name) == &entry);
        const std::vector<float> means = entry.means();
        CHECK(means.size() == entry.sums.size());
        for (const float mean : means) CHECK(!std::isnan(mean) && mean >= 0.0F);
    }
    return 0;
}

}  // namespace tandem::format
