// PartialFile: a file that arrives in pieces, in any order and over several runs, and gets its name when it is right.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"

namespace tandem::hub {

// What is still arriving has this behind its name.
inline constexpr std::string_view kPartialSuffix = ".tandem-partial";

struct PartialOptions {
    std::filesystem::path path;       // where the data lie meanwhile
    uint64_t size_bytes = 0;          // of the whole
    std::string identity;             // of the content: what was kept of another is of no use
    std::string etag;                 // the checksum to have, as for Digest; empty: none is known
    uint64_t piece_bytes = 32 << 20;  // that are fetched by one request
};

// How much of each piece is there. Behind the data lies a journal that says so: whoever is killed at any time finds the
// file at most a megabyte for each stream behind what had arrived. A file of exactly the whole's size has no journal
// any more: all had arrived.
struct Journal {
    uint64_t size_bytes = 0;
    uint64_t piece_bytes = 0;
    std::string identity;
    std::vector<uint32_t> done_bytes;  // of each piece, from its beginning
};
std::string to_bytes(const Journal& journal);
std::optional<Journal> parse_journal(std::string_view bytes);

class PartialFile {
  public:
    // Goes on with what is there, if it is of the same content.
    static Result<std::unique_ptr<PartialFile>> open(PartialOptions options);
    PartialFile(const PartialFile&) = delete;
    PartialFile& operator=(const PartialFile&) = delete;
    ~PartialFile();

    struct Piece {
        uint64_t begin = 0;
        uint64_t size_bytes = 0;
        uint64_t done_bytes = 0;
        uint64_t next() const { return begin + done_bytes; }
        uint64_t end() const { return begin + size_bytes; }
        bool is_done() const { return done_bytes == size_bytes; }
    };
    const std::vector<Piece>& pieces() const { return pieces_; }
    uint64_t done_bytes() const { return done_bytes_; }
    bool is_done() const { return done_bytes_ == options_.size_bytes; }

    // Bytes of the whole, from `offset` on; what was there already is not counted again.
    Status write(uint64_t offset, std::span<const std::byte> bytes);

    // When all is there: waits for the checksum, which was computed meanwhile, and gives the file its name. One that is
    // not right is removed.
    Status finish(const std::filesystem::path& path);

  private:
    explicit PartialFile(PartialOptions options) : options_(std::move(options)) {}

    Status adopt();  // what an earlier run has left
    Status begin_anew();
    void make_pieces();
    void advance_front();
    void hash();  // the thread's: follows the front
    Status write_at(uint64_t offset, std::span<const std::byte> bytes) const;
    Status record(size_t piece);
    Error system_error(std::string_view what) const;

    PartialOptions options_;
    int fd_ = -1;
    std::vector<Piece> pieces_;
    std::vector<uint64_t> recorded_;  // of each piece, in the journal
    uint64_t done_bytes_ = 0;

    std::atomic<uint64_t> front_ = 0;  // all before it is there
    std::atomic<bool> hash_fails_ = false;
    std::atomic<bool> stopping_ = false;
    std::string found_;  // the checksum, of the thread
    std::thread hasher_;
};

}  // namespace tandem::hub
