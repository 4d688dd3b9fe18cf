#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

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
        return fail("{}: cannot map {} bytes: {}", path.string(), opened.size_bytes, std::strerror(errno));
    file.data_ = static_cast<const std::byte*>(data);
    file.size_ = opened.size_bytes;
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
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::string> read_text_file(const std::filesystem::path& path, size_t limit_bytes) {
    const Opened opened = TRY(open_regular(path));
    const Descriptor fd(opened.fd);
    if (opened.size_bytes > limit_bytes) {
        return fail("{}: {} bytes, more than the {} that such a file may have", path.string(), opened.size_bytes,
                    limit_bytes);
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

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path) {
    AtomicFile file;
    file.path_ = path;
    struct stat status {};
    const bool exists = ::stat(path.c_str(), &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) return fail("{}: is a directory, name a file in it", path.string());
    if (exists && !S_ISREG(status.st_mode)) {  // a pipe or a device is written to, never replaced
        file.fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
        if (file.fd_ < 0) return fail("{}: cannot write: {}", path.string(), std::strerror(errno));
        return file;
    }
    file.temporary_ = path.string() + ".XXXXXX";
    file.fd_ = ::mkostemp(file.temporary_.data(), O_CLOEXEC);
    if (file.fd_ < 0) return fail("{}: cannot write: {}", path.string(), std::strerror(errno));
    ::fchmod(file.fd_, 0644);
    return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
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
            return fail("{}: cannot write beyond {} bytes: {}", path_.string(), written_bytes_, std::strerror(errno));
        bytes = bytes.subspan(static_cast<size_t>(written));
        written_bytes_ += static_cast<uint64_t>(written);
    }
    return Ok{};
}

Status AtomicFile::commit() {
    if (temporary_.empty()) {
        ::close(std::exchange(fd_, -1));
        return Ok{};
    }
    if (::fsync(fd_) != 0)
        return fail("{}: cannot write {} bytes: {}", path_.string(), written_bytes_, std::strerror(errno));
    if (::rename(temporary_.c_str(), path_.c_str()) != 0)
        return fail("{}: cannot replace: {}", path_.string(), std::strerror(errno));
    ::close(std::exchange(fd_, -1));
    return Ok{};
}

Status write_file(const std::filesystem::path& path, std::string_view content) {
    AtomicFile file = TRY(AtomicFile::create(path));
    TRY(file.write(std::as_bytes(std::span(content))));
    return file.commit();
}

}  // namespace tandem
