// How fast a disk gives a file to several readers, without what the system remembers of it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"

namespace tandem::measure {

struct DiskRate {
    double bytes_per_s = 0;
    uint64_t read_bytes = 0;
    bool past_memory = true;  // false: the file system is one that lies in memory, or remembers all the same
};

// Of a file that is there; not direct: by plain reads, which is the better way for some virtual disks, and true only of
// a file that the system was made to forget.
Result<DiskRate> measure_disk(const std::filesystem::path& file, bool direct = true);
// Of a file of its own in the folder, which no name remains of.
Result<DiskRate> measure_disk_of(const std::filesystem::path& folder);

}  // namespace tandem::measure
