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

// The whole file as text; refuses one larger than `limit_bytes`.
Result<std::string> read_text_file(const std::filesystem::path& path, size_t limit_bytes = size_t{256} << 20);

// A file written piece by piece to a temporary beside `path`, which commit() renames: until then, and after any error,
// the old file is as it was and no new one remains. A device or a pipe is written to directly.
class AtomicFile {
  public:
    static Result<AtomicFile> create(const std::filesystem::path& path);

    AtomicFile(AtomicFile&& other) noexcept;
    AtomicFile& operator=(AtomicFile&&) = delete;
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;
    ~AtomicFile();

    Status write(std::span<const std::byte> bytes);
    Status commit();

  private:
    AtomicFile() = default;

    std::filesystem::path path_;
    std::string temporary_;
    int fd_ = -1;
    uint64_t written_bytes_ = 0;
};

// Writes `content` as an AtomicFile.
Status write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace tandem
