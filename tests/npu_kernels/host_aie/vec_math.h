// Square roots and erf of bfloat16 vectors under the names of the vendor's header.
#pragma once

#include <aie_api/aie.hpp>

// NOLINTBEGIN(readability-identifier-naming): the names are those of the public header
template <unsigned N>
aie::vector<bfloat16, N> getRsqrtBf16(const aie::vector<bfloat16, N>& v) {
    return aie::invsqrt(v);
}

template <unsigned N>
aie::vector<bfloat16, N> getSqrtBf16(const aie::vector<bfloat16, N>& v) {
    return aie::sqrt(v);
}

template <unsigned N>
aie::vector<bfloat16, N> getErfBf16(const aie::vector<bfloat16, N>& v) {
    return aie::detail::function(v, [](float x) { return erff(x); });
}
// NOLINTEND(readability-identifier-naming)
