// Digest: the checksum of a file by which the Hub names it, computed piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tandem::hub {

class Digest {
  public:
    // Of 64 hex digits it is the SHA-256 of the content, of 40 the SHA-1 of a git blob of this size.
    Digest(std::string_view etag, uint64_t size_bytes);

    void add(std::span<const std::byte> bytes);
    std::string hex();  // once, at the end

  private:
    std::shared_ptr<void> context_;
};

}  // namespace tandem::hub
