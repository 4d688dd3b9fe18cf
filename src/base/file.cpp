#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/units.h"

namespace tandem {

namespace {

// Closes a file descriptor at the end of a scope.
class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    int get() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }

  private:
    int fd_;
};

// All mappings, for a signal handler: no locks, no memory that comes and goes. A file that finds no place is only not
// known there.
struct Mapping {
    std::atomic<bool> is_taken = false;
    std::atomic<uintptr_t> begin = 0;  // 0: not in use (yet, or any more)
    std::atomic<size_t> size = 0;
    std::atomic<bool> is_lost = false;
};
constexpr size_t kMostMappings = 4096;
std::array<Mapping, kMostMappings> mappings;
std::atomic<uint64_t> lost = 0;

void note_mapping(const void* data, size_t size) {
    for (Mapping& mapping : mappings) {
        if (mapping.is_taken.exchange(true)) continue;
        mapping.is_lost = false;
        mapping.size = size;
        mapping.begin = reinterpret_cast<uintptr_t>(data);
        return;
    }
}

Mapping* find_mapping(uintptr_t address) {
    for (Mapping& mapping : mappings) {
        const uintptr_t begin = mapping.begin;
        if (begin != 0 && address >= begin && address - begin < mapping.size) return &mapping;
    }
    return nullptr;
}

void forget_mapping(const void* data) {
    Mapping* const mapping = find_mapping(reinterpret_cast<uintptr_t>(data));
    if (mapping == nullptr) return;
    mapping->begin = 0;
    mapping->is_taken = false;
}

struct Opened {
    int fd;
    size_t size_bytes;
};

Result<Opened> open_regular(const std::filesystem::path& path) {
    Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe must not make us wait
    if (fd.get() < 0) return fail("{}: cannot open: {}", path.string(), std::strerror(errno));
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0)
        return fail("{}: cannot read its size: {}", path.string(), std::strerror(errno));
    if (S_ISDIR(status.st_mode)) return fail("{}: is a directory, a file was expected", path.string());
    if (!S_ISREG(status.st_mode)) return fail("{}: is not a regular file", path.string());
    return Opened{fd.release(), static_cast<size_t>(status.st_size)};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
    const Opened opened = TRY(open_regular(path));
    const Descriptor fd(opened.fd);
    MappedFile file;
    file.path_ = path;
    if (opened.size_bytes == 0) return file;  // an empty mapping is an error to the kernel, not to us
    void* data = ::mmap(nullptr, opened.size_bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED)
        return fail("{}: cannot map {}: {}", path.string(), format_bytes(opened.size_bytes), std::strerror(errno));
    // Weights are read at the speed of memory, which many small pages slow down. It is no fault when there are no
    // others.
    ::madvise(data, opened.size_bytes, MADV_HUGEPAGE);
    file.data_ = static_cast<const std::byte*>(data);
    file.size_ = opened.size_bytes;
    note_mapping(data, opened.size_bytes);
    return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

MappedFile::~MappedFile() {
    if (data_ == nullptr) return;
    forget_mapping(data_);
    ::munmap(const_cast<std::byte*>(data_), size_);
}

// All of it, since what is read afterwards is worth nothing whatever it is, and a page at a time would take a signal
// for each.
bool fill_lost_mapping(const void* address) {
    Mapping* const mapping = find_mapping(reinterpret_cast<uintptr_t>(address));
    if (mapping == nullptr) return false;
    if (mapping->is_lost.exchange(true))
        return true;  // another thread is at it: the read is tried again until it is done
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    void* const begin =
        reinterpret_cast<void*>(mapping->begin.load());  // NOLINT(performance-no-int-to-ptr): it was one
    if (::mmap(begin, mapping->size, PROT_READ, kFlags, -1, 0) == MAP_FAILED) return false;
    ++lost;
    return true;
}

uint64_t lost_mappings() {
    return lost;
}

bool is_lost(std::span<const std::byte> bytes) {
    const Mapping* const mapping = find_mapping(reinterpret_cast<uintptr_t>(bytes.data()));
    return mapping != nullptr && mapping->is_lost;
}

Result<std::string> read_text_file(const std::filesystem::path& path, size_t limit_bytes) {
    const Opened opened = TRY(open_regular(path));
    const Descriptor fd(opened.fd);
    if (opened.size_bytes > limit_bytes) {
        return fail("{}: {}, more than the {} that such a file may have", path.string(),
                    format_bytes(opened.size_bytes), format_bytes(limit_bytes));
    }
    std::string text(opened.size_bytes, '\0');
    size_t filled = 0;
    while (filled < text.size()) {
        const ssize_t count = ::read(fd.get(), text.data() + filled, text.size() - filled);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fail("{}: cannot read: {}", path.string(), std::strerror(errno));
        if (count == 0) break;  // the file shrank meanwhile
        filled += static_cast<size_t>(count);
    }
    text.resize(filled);
    return text;
}

namespace {

// How a file is reached that has no name. Another way, AT_EMPTY_PATH, is for privileged processes only.
std::string link_to(int fd) {
    return fmt::format("/proc/self/fd/{}", fd);
}

// A file in the directory of `path` that has no name yet, or -1 where there are none or they could not get one.
int open_unnamed(const std::filesystem::path& path) {
    const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
    Descriptor fd(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644));
    if (fd.get() < 0 || ::access(link_to(fd.get()).c_str(), F_OK) != 0) return -1;
    ::fchmod(fd.get(), 0644);
    return fd.release();
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path, bool unnamed) {
    AtomicFile file;
    file.path_ = path;
    struct stat status {};
    const bool exists = ::stat(path.c_str(), &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) return fail("{}: is a directory, name a file in it", path.string());
    if (exists && !S_ISREG(status.st_mode)) {  // a pipe or a device is written to, never replaced
        file.fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
        if (file.fd_ < 0) return fail("{}: cannot write: {}", path.string(), std::strerror(errno));
        file.direct_ = true;
        return file;
    }
    if (unnamed) file.fd_ = open_unnamed(path);
    if (file.fd_ >= 0) return file;
    file.temporary_ = path.string() + ".XXXXXX";
    file.fd_ = ::mkostemp(file.temporary_.data(), O_CLOEXEC);
    if (file.fd_ < 0) return fail("{}: cannot write: {}", path.string(), std::strerror(errno));
    ::fchmod(file.fd_, 0644);
    return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      direct_(other.direct_),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      written_bytes_(other.written_bytes_) {}

AtomicFile::~AtomicFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0)
            return fail("{}: cannot write beyond {}: {}", path_.string(), format_bytes(written_bytes_),
                        std::strerror(errno));
        bytes = bytes.subspan(static_cast<size_t>(written));
        written_bytes_ += static_cast<uint64_t>(written);
    }
    return Ok{};
}

Status AtomicFile::reserve(uint64_t size_bytes) {
    if (direct_ || size_bytes == 0) return Ok{};
    std::error_code unknown;
    const std::filesystem::path directory = path_.has_parent_path() ? path_.parent_path() : ".";
    const uint64_t free_bytes = std::filesystem::space(directory, unknown).available;
    // Looked at first: a file system may fill itself up before it finds that there is too little.
    if (!unknown && free_bytes < size_bytes) {
        return fail("{}: needs {} but the disk has {} free: make room or write elsewhere", path_.string(),
                    format_bytes(size_bytes), format_bytes(free_bytes));
    }
    const auto size = static_cast<off_t>(size_bytes);
    if (::fallocate(fd_, 0, 0, size) == 0) return Ok{};
    // Not every file system can reserve; it then tells when it is full.
    if (errno == EOPNOTSUPP && ::ftruncate(fd_, size) == 0) return Ok{};
    return fail("{}: cannot write {}: {}", path_.string(), format_bytes(size_bytes), std::strerror(errno));
}

Status AtomicFile::skip_to(uint64_t offset) {
    CHECK(offset >= written_bytes_, "a pipe takes parts in their order");
    constexpr std::array<std::byte, 4096> kZeros{};
    while (written_bytes_ < offset)
        TRY(write(std::span(kZeros).first(std::min<uint64_t>(kZeros.size(), offset - written_bytes_))));
    return Ok{};
}

Status AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
    if (direct_) {
        TRY(skip_to(offset));
        return write(bytes);
    }
    while (!bytes.empty()) {
        const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0)
            return fail("{}: cannot write beyond {}: {}", path_.string(), format_bytes(offset), std::strerror(errno));
        bytes = bytes.subspan(static_cast<size_t>(written));
        offset += static_cast<uint64_t>(written);
    }
    return Ok{};
}

Status AtomicFile::commit() {
    if (!direct_) {
        if (::fsync(fd_) != 0) return fail("{}: cannot write: {}", path_.string(), std::strerror(errno));
        TRY(give_name());
    }
    ::close(std::exchange(fd_, -1));
    return Ok{};
}

Status AtomicFile::give_name() {
    if (temporary_.empty()) {
        const std::string unnamed = link_to(fd_);
        const auto link_as = [&](const char* name) {
            return ::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
        };
        if (link_as(path_.c_str())) return Ok{};
        if (errno != EEXIST) return fail("{}: cannot write: {}", path_.string(), std::strerror(errno));
        // A link replaces nothing, so what is there is replaced by renaming.
        std::string name = path_.string() + ".XXXXXX";
        const Descriptor taken(::mkostemp(name.data(), O_CLOEXEC));
        if (taken.get() < 0 || ::unlink(name.c_str()) != 0 || !link_as(name.c_str()))
            return fail("{}: cannot replace: {}", path_.string(), std::strerror(errno));
        temporary_ = std::move(name);
    }
    if (::rename(temporary_.c_str(), path_.c_str()) != 0)
        return fail("{}: cannot replace: {}", path_.string(), std::strerror(errno));
    return Ok{};
}

Status write_file(const std::filesystem::path& path, std::string_view content) {
    AtomicFile file = TRY(AtomicFile::create(path));
    TRY(file.write(std::as_bytes(std::span(content))));
    return file.commit();
}

}  // namespace tandem
