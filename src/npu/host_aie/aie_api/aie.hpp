// aie_api for the host: our own implementation of the part of the public API that our kernels use, so that the same
// sources run here. It computes what a core computes, with its modes, and counts what the core would do.
// What is known to differ: a core flushes denormal floats and its float accumulators round in their own way.
#pragma once

#include <aie_api/arithmetic.hpp>
#include <aie_api/mmul.hpp>
