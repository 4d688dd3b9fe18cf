// Files: mapped for reading, written whole or not at all.
#pragma once

#include <cstddef>
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

// Writes to a temporary file beside `path` and renames it: after an error the old file is as it was.
Status write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace tandem
