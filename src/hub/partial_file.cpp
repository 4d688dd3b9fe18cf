#include "hub/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "hub/digest.h"

namespace tandem::hub {

namespace {

constexpr std::string_view kMagic = "tandem partial 1";
constexpr uint64_t kRecordBytes = 1 << 20;  // the journal is written when so much more is there
constexpr uint64_t kMostPieces = 1 << 20;
constexpr size_t kHashBytes = 1 << 20;
constexpr std::chrono::milliseconds kHasherNap{5};

template <typename T>
void put(std::string& bytes, T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
bool take(std::string_view& bytes, T& value) {
    if (bytes.size() < sizeof value) return false;
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes.remove_prefix(sizeof value);
    return true;
}

uint64_t pieces_of(uint64_t size_bytes, uint64_t piece_bytes) {
    return (size_bytes + piece_bytes - 1) / piece_bytes;
}

Status sync_folder(const std::filesystem::path& folder) {
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail("{}: {}", folder.string(), std::strerror(errno));
    ::fsync(fd);  // some file systems cannot sync a folder: the file itself is safe
    ::close(fd);
    return Ok{};
}

}  // namespace

std::string to_bytes(const Journal& journal) {
    std::string bytes(kMagic);
    put(bytes, journal.size_bytes);
    put(bytes, journal.piece_bytes);
    put(bytes, static_cast<uint32_t>(journal.identity.size()));
    bytes += journal.identity;
    for (const uint32_t done : journal.done_bytes) put(bytes, done);
    return bytes;
}

std::optional<Journal> parse_journal(std::string_view bytes) {
    Journal journal;
    uint32_t identity_bytes = 0;
    if (!bytes.starts_with(kMagic)) return std::nullopt;
    bytes.remove_prefix(kMagic.size());
    if (!take(bytes, journal.size_bytes) || !take(bytes, journal.piece_bytes) || !take(bytes, identity_bytes)) {
        return std::nullopt;
    }
    if (journal.piece_bytes == 0 || journal.piece_bytes > UINT32_MAX || bytes.size() < identity_bytes)
        return std::nullopt;
    if (journal.size_bytes > kMostPieces * journal.piece_bytes) return std::nullopt;
    journal.identity = bytes.substr(0, identity_bytes);
    bytes.remove_prefix(identity_bytes);
    const uint64_t count = pieces_of(journal.size_bytes, journal.piece_bytes);
    if (bytes.size() != count * sizeof(uint32_t)) return std::nullopt;
    for (uint64_t i = 0; i < count; ++i) {
        uint32_t done = 0;
        take(bytes, done);
        if (done > std::min(journal.piece_bytes, journal.size_bytes - i * journal.piece_bytes)) return std::nullopt;
        journal.done_bytes.push_back(done);
    }
    return journal;
}

Error PartialFile::system_error(std::string_view what) const {
    if (errno == ENOSPC || errno == EDQUOT) {
        return fail("{}: the disk is full: free {} bytes more; what has arrived is kept", options_.path.string(),
                    options_.size_bytes - done_bytes_);
    }
    return fail("{}: {}: {}", options_.path.string(), what, std::strerror(errno));
}

Result<std::unique_ptr<PartialFile>> PartialFile::open(PartialOptions options) {
    std::unique_ptr<PartialFile> file(new PartialFile(std::move(options)));
    const std::filesystem::path& path = file->options_.path;
    file->fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file->fd_ < 0) return file->system_error("cannot be written");
    TRY(file->adopt());
    file->advance_front();
    if (!file->options_.etag.empty()) file->hasher_ = std::thread([partial = file.get()] { partial->hash(); });
    return file;
}

PartialFile::~PartialFile() {
    stopping_ = true;
    if (hasher_.joinable()) hasher_.join();
    if (fd_ >= 0) ::close(fd_);
}

void PartialFile::make_pieces() {
    const uint64_t size = options_.size_bytes;
    const uint64_t least = (size + kMostPieces - 1) / kMostPieces;
    options_.piece_bytes = std::max({options_.piece_bytes, least, uint64_t{1}});
    for (uint64_t begin = 0; begin < size; begin += options_.piece_bytes) {
        pieces_.push_back({.begin = begin, .size_bytes = std::min(options_.piece_bytes, size - begin)});
    }
    recorded_.assign(pieces_.size(), 0);
}

Status PartialFile::adopt() {
    make_pieces();
    struct stat status {};
    if (::fstat(fd_, &status) != 0) return system_error("cannot be read");
    const auto found_bytes = static_cast<uint64_t>(status.st_size);
    if (found_bytes == options_.size_bytes && !options_.etag.empty()) {  // an earlier run had it all
        for (Piece& piece : pieces_) piece.done_bytes = piece.size_bytes;
        done_bytes_ = options_.size_bytes;
        return Ok{};
    }
    const Journal wanted{.size_bytes = options_.size_bytes,
                         .piece_bytes = options_.piece_bytes,
                         .identity = options_.identity,
                         .done_bytes = std::vector<uint32_t>(pieces_.size())};
    std::string bytes(to_bytes(wanted).size(), '\0');
    if (found_bytes != options_.size_bytes + bytes.size()) return begin_anew();
    const ssize_t got = ::pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(options_.size_bytes));
    const std::optional<Journal> journal =
        got == static_cast<ssize_t>(bytes.size()) ? parse_journal(bytes) : std::nullopt;
    const bool is_same = journal && journal->identity == wanted.identity && journal->size_bytes == wanted.size_bytes &&
                         journal->piece_bytes == wanted.piece_bytes;
    if (!is_same) return begin_anew();
    for (size_t i = 0; i < pieces_.size(); ++i) {
        pieces_[i].done_bytes = recorded_[i] = journal->done_bytes[i];
        done_bytes_ += pieces_[i].done_bytes;
    }
    return Ok{};
}

// The journal's room is made first: a file that is cut short here is not taken for a whole one.
Status PartialFile::begin_anew() {
    const std::string bytes = to_bytes({.size_bytes = options_.size_bytes,
                                        .piece_bytes = options_.piece_bytes,
                                        .identity = options_.identity,
                                        .done_bytes = std::vector<uint32_t>(pieces_.size())});
    const auto all = static_cast<off_t>(options_.size_bytes + bytes.size());
    if (::ftruncate(fd_, 0) != 0 || ::ftruncate(fd_, all) != 0) return system_error("cannot be written");
    // Where the file system can, the room is taken now, so that a full disk is known before the work.
    if (::fallocate(fd_, 0, 0, all) != 0 && (errno == ENOSPC || errno == EDQUOT)) return system_error("no room");
    return write_at(options_.size_bytes, std::as_bytes(std::span(bytes)));
}

Status PartialFile::write_at(uint64_t offset, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return system_error("cannot be written");
        offset += static_cast<uint64_t>(written);
        bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return Ok{};
}

Status PartialFile::record(size_t piece) {
    const auto done = static_cast<uint32_t>(pieces_[piece].done_bytes);
    // Without a checksum nothing would find what a crash of the machine has lost.
    if (options_.etag.empty() && ::fdatasync(fd_) != 0) return system_error("cannot be written");
    const uint64_t table = to_bytes({.identity = options_.identity, .done_bytes = {}}).size();
    recorded_[piece] = done;
    return write_at(options_.size_bytes + table + piece * sizeof done, std::as_bytes(std::span(&done, 1)));
}

Status PartialFile::write(uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        if (offset >= options_.size_bytes) {
            return fail("{}: more arrives than its {} bytes: the address gives another file", options_.path.string(),
                        options_.size_bytes);
        }
        const size_t index = offset / options_.piece_bytes;
        Piece& piece = pieces_[index];
        CHECK(offset <= piece.next(), "a piece arrives in order");
        const size_t taken = static_cast<size_t>(std::min<uint64_t>(bytes.size(), piece.end() - offset));
        const uint64_t known = std::min<uint64_t>(taken, piece.next() - offset);
        if (known < taken) {
            TRY(write_at(offset + known, bytes.subspan(known, taken - known)));
            piece.done_bytes += taken - known;
            done_bytes_ += taken - known;
            const uint64_t step = options_.etag.empty() ? piece.size_bytes : kRecordBytes;
            if (piece.is_done() || piece.done_bytes - recorded_[index] >= step) TRY(record(index));
        }
        offset += taken;
        bytes = bytes.subspan(taken);
    }
    advance_front();
    return Ok{};
}

void PartialFile::advance_front() {
    uint64_t front = front_;
    while (front < options_.size_bytes) {
        const Piece& piece = pieces_[front / options_.piece_bytes];
        front = piece.next();
        if (!piece.is_done()) break;
    }
    front_ = front;
}

void PartialFile::hash() {
    Digest digest(options_.etag, options_.size_bytes);
    std::vector<std::byte> buffer(kHashBytes);
    for (uint64_t hashed = 0; hashed < options_.size_bytes;) {
        const uint64_t there = front_ - hashed;
        if (stopping_) return;
        if (there == 0) {
            std::this_thread::sleep_for(kHasherNap);
            continue;
        }
        const size_t wanted = static_cast<size_t>(std::min<uint64_t>(there, buffer.size()));
        const ssize_t got = ::pread(fd_, buffer.data(), wanted, static_cast<off_t>(hashed));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            hash_fails_ = true;
            return;
        }
        digest.add(std::span(buffer).first(static_cast<size_t>(got)));
        hashed += static_cast<uint64_t>(got);
    }
    found_ = digest.hex();
}

Status PartialFile::finish(const std::filesystem::path& path) {
    CHECK(is_done(), "finish() when all is there");
    if (hasher_.joinable()) hasher_.join();
    if (hash_fails_) return fail("{}: cannot be read to check it", options_.path.string());
    if (found_ != options_.etag) {
        std::error_code ignored;
        std::filesystem::remove(options_.path, ignored);
        return fail("{}: the checksum is {} and should be {}: what arrived is not the file, and was removed",
                    path.string(), found_, options_.etag);
    }
    if (::ftruncate(fd_, static_cast<off_t>(options_.size_bytes)) != 0) return system_error("cannot be written");
    if (::fsync(fd_) != 0) return system_error("cannot be written");
    if (::rename(options_.path.c_str(), path.c_str()) != 0) return system_error("cannot be renamed");
    return sync_folder(path.parent_path());
}

}  // namespace tandem::hub
