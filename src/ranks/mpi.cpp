#include "ranks/mpi.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/module.h"

namespace tandem::ranks {

// What Open MPI's mpirun and Slurm set for every process that they start.
std::optional<int> launched_ranks() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
        const char* const value = std::getenv(name);
        if (value == nullptr) continue;
        const std::string_view text(value);
        int size = 0;
        if (std::from_chars(text.data(), text.data() + text.size(), size).ec == std::errc() && size > 0) return size;
    }
    return std::nullopt;
}

Result<std::unique_ptr<Transport>> open_mpi() {
    using Make = Transport*();
    void* const function = TRY(find_in_module({.name = "mpi", .package = "tandem-mpi"}, "tandem_mpi_transport"));
    return std::unique_ptr<Transport>(reinterpret_cast<Make*>(function)());
}

}  // namespace tandem::ranks
