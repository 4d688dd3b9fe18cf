// Parts: the pieces of a Program that ranks run, with the cache layers and weights that each needs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/program.h"
#include "graph/weights.h"

namespace tandem::ranks {

// A part of a Program. One without layers and nodes has nothing to do.
struct Part {
    int first_layer = 0;
    int end_layer = 0;               // one past its last
    graph::Program program;          // its results are what later parts take of it and those of the whole that it makes
    std::vector<std::string> takes;  // inputs that parts before it make
};

// Part i has the layers [cuts[i - 1], cuts[i]), the first also what comes before all layers and the last what comes
// after them. Equal cuts leave a part empty. Fails where layers on both sides of a cut share keys and values.
Result<std::vector<Part>> cut_into_parts(const graph::Program& program, std::span<const int> cuts);

// Views of the weights that a Program uses: a device that reads all weights it is given reads no others.
graph::Weights weights_of(const graph::Program& program, const graph::Weights& weights);

}  // namespace tandem::ranks
