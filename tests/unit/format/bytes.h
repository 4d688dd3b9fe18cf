// Builds files by hand, byte by byte, so that tests can write what no sane writer would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/file.h"

namespace tandem::format {

class Bytes {
  public:
    template <typename T>
    requires std::is_arithmetic_v<T> Bytes& put(T value) { return raw(std::as_bytes(std::span(&value, 1))); }

    Bytes& raw(std::span<const std::byte> bytes) {
        data.insert(data.end(), bytes.begin(), bytes.end());
        return *this;
    }
    Bytes& text(std::string_view text) { return raw(std::as_bytes(std::span(text))); }

    // A string of GGUF.
    Bytes& string(std::string_view value) { return put(uint64_t{value.size()}).text(value); }

    Bytes& header(uint64_t tensors, uint64_t entries, uint32_t version = 3) {
        return text("GGUF").put(version).put(tensors).put(entries);
    }

    // The description of a tensor; `dims` innermost first, as in the file.
    Bytes& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
        string(name).put(static_cast<uint32_t>(dims.size()));
        for (uint64_t dim : dims) put(dim);
        return put(type).put(offset);
    }

    Bytes& pad(size_t alignment, size_t more = 0) {
        data.resize((data.size() + alignment - 1) / alignment * alignment + more);
        return *this;
    }

    std::string_view view() const { return {reinterpret_cast<const char*>(data.data()), data.size()}; }

    std::vector<std::byte> data;
};

inline bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

// A folder that is removed with all it holds at the end of a test.
class TempFolder {
  public:
    TempFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "tandem_test_XXXXXX").string();
        CHECK(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    ~TempFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }

    std::filesystem::path write(std::string_view name, std::string_view content) const {
        CHECK(write_file(path / name, content));
        return path / name;
    }

    std::filesystem::path path;
};

}  // namespace tandem::format
