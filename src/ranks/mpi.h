// MPI, which lies in a module: a program that needs no ranks runs without it.
#pragma once

#include <memory>
#include <optional>

#include "ranks/transport.h"

namespace tandem::ranks {

// How many ranks mpirun, or Slurm, has started this process as one of; none where neither did.
std::optional<int> launched_ranks();

// Over MPI. An error says which package is missing.
Result<std::unique_ptr<Transport>> open_mpi();

}  // namespace tandem::ranks
