#include "measure/disk_rate.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace tandem::measure {

namespace {

constexpr int kReaders = 4;  // a disk of flash gives one reader less than it has
constexpr size_t kPieceBytes = size_t{4} << 20;
constexpr uint64_t kMostReadBytes = uint64_t{1} << 30;  // that are read of a file
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

// Whole pieces of the file, one after another, as long as there are any.
class DiskReader {
  public:
    DiskReader(int fd, uint64_t wanted_bytes) : fd_(fd), wanted_bytes_(wanted_bytes) {}

    void read() {
        const DiskPiece piece = make_piece();
        if (!piece) return fail_with("no memory to read it");
        for (;;) {
            const uint64_t at = next_.fetch_add(kPieceBytes);
            if (at >= wanted_bytes_) return;
            for (size_t done = 0; done < kPieceBytes;) {
                const ssize_t got = pread(fd_, piece.get() + done, kPieceBytes - done, static_cast<off_t>(at + done));
                if (got < 0 && errno == EINTR) continue;
                if (got <= 0) return fail_with(got < 0 ? std::strerror(errno) : "it became shorter");
                done += static_cast<size_t>(got);
            }
        }
    }
    // Empty: all was read.
    const std::string& failure() const { return failure_; }

  private:
    void fail_with(const char* why) {
        const std::lock_guard lock(mutex_);
        failure_ = why;
    }

    int fd_;
    uint64_t wanted_bytes_;
    std::atomic<uint64_t> next_ = 0;
    std::mutex mutex_;
    std::string failure_;
};

Result<DiskRate> read_all(int fd, const std::string& name, uint64_t size_bytes, bool past_memory) {
    // Whole pieces: with O_DIRECT the rest of a file is another thing.
    const uint64_t wanted = std::min(size_bytes, kMostReadBytes) / kPieceBytes * kPieceBytes;
    if (wanted == 0) return fail("{}: too small to measure a disk by: {} MiB are needed", name, kPieceBytes >> 20);
    DiskReader reader(fd, wanted);
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (int i = 0; i < kReaders; ++i) threads.emplace_back([&] { reader.read(); });
    for (std::thread& thread : threads) thread.join();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (!reader.failure().empty()) return fail("{}: cannot be read: {}", name, reader.failure());
    return DiskRate{
        .bytes_per_s = static_cast<double>(wanted) / time.count(), .read_bytes = wanted, .past_memory = past_memory};
}

// Where the file system refuses O_DIRECT it is asked to forget the file, which those in memory do not.
Result<DiskRate> measure(const std::string& path, const std::string& name, bool is_direct = true) {
    const DiskFile direct(is_direct ? open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC) : -1);
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

Result<DiskRate> measure_disk(const std::filesystem::path& file, bool direct) {
    return measure(file.string(), file.string(), direct);
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

}  // namespace tandem::measure
