// The ranks of a soak that mpirun started: rank 0 asks all of them as one device, the others work until it ends.
#pragma once

#include <memory>

#include "device/backend.h"
#include "models/model.h"
#include "ranks/post.h"

namespace tandem::engine {

double resident_megabytes();

// Of this process. Must outlive the device.
Result<std::unique_ptr<ranks::Post>> join_ranks();

struct RankSettings {
    double seconds = 0;  // that it will last about
    bool exact = false;  // nothing is rounded, neither by devices nor on the way
};

Result<std::unique_ptr<device::Backend>> open_ranks(std::shared_ptr<ranks::Post> post, const RankSettings& settings);
// Prints how its memory has grown since a quarter of the time.
Status work_as_rank(ranks::Post& post, const models::Model& model, const RankSettings& settings);

}  // namespace tandem::engine
