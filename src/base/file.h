// Files: mapped for reading, written whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem {

// A file mapped read-only; pages are read when they are touched. Movable, unmapped when destroyed.
class MappedFile {
  public:
    static Result<MappedFile> open(const std::filesystem::path& path);

    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    std::span<const std::byte> bytes() const { return {data_, size_}; }
    const std::filesystem::path& path() const { return path_; }

  private:
    MappedFile() = default;

    std::filesystem::path path_;
    const std::byte* data_ = nullptr;
    size_t size_ = 0;
};

// A mapped file that gets shorter, or whose disk fails, while it is in use: the read of a page that is not there raises
// SIGBUS, at whatever instruction does it. A handler of that signal may have the mapping filled with zeros, so that the
// reader goes on with nonsense, and whoever uses the file asks afterwards whether that has happened.

// For the handler: false where there is no MappedFile at the address. Safe in signal handlers.
bool fill_lost_mapping(const void* address);
// How many mappings were filled so far. It costs nothing to look.
uint64_t lost_mappings();
// Whether these bytes are in a mapping that was filled.
bool is_lost(std::span<const std::byte> bytes);

// The whole file as text; refuses one larger than `limit_bytes`.
Result<std::string> read_text_file(const std::filesystem::path& path, size_t limit_bytes = size_t{256} << 20);

// A file written piece by piece that gets its name by commit(): until then, and after any error, the old file is as it
// was and no new one remains. A device or a pipe is written to directly.
class AtomicFile {
  public:
    // Where the file system has files without a name, nothing remains even of a process that is killed; `unnamed` false
    // is for tests of the others, where a temporary lies beside `path`.
    static Result<AtomicFile> create(const std::filesystem::path& path, bool unnamed = true);

    AtomicFile(AtomicFile&& other) noexcept;
    AtomicFile& operator=(AtomicFile&&) = delete;
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;
    ~AtomicFile();

    Status write(std::span<const std::byte> bytes);

    // For whoever knows where all will lie: room for the whole file, so that a disk that is too small is known before
    // the work is done, and then its parts, from any thread and in any order. What was not written is zeros.
    Status reserve(uint64_t size_bytes);
    Status write_at(uint64_t offset, std::span<const std::byte> bytes);
    // A pipe or a device takes parts only in their order.
    bool is_in_order() const { return direct_; }

    Status commit();

  private:
    AtomicFile() = default;
    Status give_name();
    Status skip_to(uint64_t offset);

    std::filesystem::path path_;
    bool direct_ = false;    // to a device or a pipe
    std::string temporary_;  // its name until commit(); empty when it has none
    int fd_ = -1;
    uint64_t written_bytes_ = 0;  // by write()
};

// Writes `content` as an AtomicFile.
Status write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace tandem
