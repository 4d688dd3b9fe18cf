#include "cli/disk_rate.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>

namespace tandem::cli {

namespace {

constexpr size_t kPieceBytes = size_t{8} << 20;
constexpr uint64_t kMostReadBytes = uint64_t{512} << 20;  // that are read of a file
constexpr uint64_t kOwnBytes = uint64_t{256} << 20;
constexpr size_t kAlignment = 4096;

class DiskFile {
  public:
    explicit DiskFile(int fd) : fd_(fd) {}
    DiskFile(const DiskFile&) = delete;
    DiskFile& operator=(const DiskFile&) = delete;
    ~DiskFile() {
        if (fd_ >= 0) close(fd_);
    }
    int fd() const { return fd_; }

  private:
    int fd_;
};

struct FreePiece {
    void operator()(std::byte* data) const { std::free(data); }
};
using DiskPiece = std::unique_ptr<std::byte, FreePiece>;

DiskPiece make_piece() {
    return DiskPiece(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kPieceBytes)));
}

Result<DiskRate> read_all(int fd, const std::string& name, uint64_t size_bytes, bool past_memory) {
    const DiskPiece piece = make_piece();
    if (!piece) return fail("{}: no memory to read it", name);
    // Whole pieces: with O_DIRECT the rest of a file is another thing.
    const uint64_t wanted = std::min(size_bytes, kMostReadBytes) / kPieceBytes * kPieceBytes;
    if (wanted == 0) return fail("{}: too small to measure a disk by: {} MiB are needed", name, kPieceBytes >> 20);
    DiskRate rate{.past_memory = past_memory};
    const auto begin = std::chrono::steady_clock::now();
    while (rate.read_bytes < wanted) {
        const ssize_t got = pread(fd, piece.get(), kPieceBytes, static_cast<off_t>(rate.read_bytes));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return fail("{}: cannot be read: {}", name, got < 0 ? std::strerror(errno) : "it became shorter");
        rate.read_bytes += static_cast<uint64_t>(got);
        if (static_cast<size_t>(got) % kAlignment != 0) break;
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    rate.bytes_per_s = static_cast<double>(rate.read_bytes) / time.count();
    return rate;
}

// Where the file system refuses O_DIRECT it is asked to forget the file, which those in memory do not.
Result<DiskRate> measure(const std::string& path, const std::string& name) {
    const DiskFile direct(open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    const bool past_memory = direct.fd() >= 0;
    const DiskFile plain(past_memory ? -1 : open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const int fd = past_memory ? direct.fd() : plain.fd();
    if (fd < 0) return fail("{}: cannot be opened: {}", name, std::strerror(errno));
    struct stat status {};
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return fail("{}: is no file", name);
    if (!past_memory) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return read_all(fd, name, static_cast<uint64_t>(status.st_size), past_memory);
}

// Numbers that no file system can make shorter.
Status write_random(int fd, const std::string& name) {
    const DiskPiece piece = make_piece();
    if (!piece) return fail("{}: no memory to write it", name);
    std::mt19937_64 random(1);
    for (size_t i = 0; i < kPieceBytes; i += sizeof(uint64_t)) {
        const uint64_t number = random();
        std::memcpy(piece.get() + i, &number, sizeof(number));
    }
    for (uint64_t done = 0; done < kOwnBytes;) {
        std::memcpy(piece.get(), &done, sizeof(done));  // so that no two pieces are alike
        const ssize_t wrote = write(fd, piece.get(), kPieceBytes);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0)
            return fail("{}: cannot write {} MiB to measure the disk: {}", name, kOwnBytes >> 20, std::strerror(errno));
        done += static_cast<uint64_t>(wrote);
    }
    if (fsync(fd) != 0) return fail("{}: cannot be written: {}", name, std::strerror(errno));
    return Ok{};
}

}  // namespace

Result<DiskRate> measure_disk(const std::filesystem::path& file) {
    return measure(file.string(), file.string());
}

Result<DiskRate> measure_disk_of(const std::filesystem::path& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    const std::string name = folder.string();
    std::string path = (folder / "disk-XXXXXX").string();
    const DiskFile file(mkostemp(path.data(), O_CLOEXEC));
    if (file.fd() < 0) return fail("{}: cannot make a file there: {}", name, std::strerror(errno));
    unlink(path.c_str());  // it goes with this process, however that ends
    TRY(write_random(file.fd(), name));
    return measure(fmt::format("/proc/self/fd/{}", file.fd()), name);
}

}  // namespace tandem::cli
