#include "hub/hub_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/file.h"
#include "hub/http.h"
#include "hub/reference.h"
#include "hub/repository.h"

namespace tandem::hub {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLockNap{100};
constexpr std::string_view kEntryPrefix = "models--";
// As bford.info/cachedir has it: programs that make copies of disks leave such folders out.
constexpr std::string_view kCacheTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n# A cache of models from the Hugging Face Hub.\n";

Status make_folder(const fs::path& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) return fail("{}: cannot be made: {}: HF_HOME says where models go", path.string(), error.message());
    return Ok{};
}

}  // namespace

HubCache::HubCache(fs::path folder, std::string_view repo) : folder_(std::move(folder)), entry_(kEntryPrefix) {
    for (const char c : repo) entry_ += c == '/' ? std::string("--") : std::string(1, c);
    root_ = folder_ / entry_;
}

std::string repo_of_entry(std::string_view entry) {
    if (!entry.starts_with(kEntryPrefix)) return {};
    std::string repo(entry.substr(kEntryPrefix.size()));
    const size_t slash = repo.find("--");
    if (slash == std::string::npos) return {};
    repo.replace(slash, 2, "/");
    return is_repo_name(repo) ? repo : std::string();
}

Status HubCache::make_folders() const {
    TRY(make_folder(root_ / "blobs"));
    TRY(make_folder(root_ / "refs"));
    TRY(make_folder(folder_ / ".locks" / entry_));
    const fs::path tag = folder_ / "CACHEDIR.TAG";
    return fs::exists(tag) ? Status(Ok{}) : write_file(tag, kCacheTag);
}

Result<std::shared_ptr<void>> lock_file(const fs::path& path, const std::function<bool()>& stop,
                                        const std::function<void()>& on_wait) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    if (fd < 0) return fail("{}: cannot be written: {}", path.string(), std::strerror(errno));
    std::shared_ptr<void> lock(nullptr, [fd](void*) { ::close(fd); });
    for (bool is_first = true; ::flock(fd, LOCK_EX | LOCK_NB) != 0; is_first = false) {
        if (errno != EWOULDBLOCK && errno != EINTR) return lock;  // a file system without locks
        if (stop()) return stopped_error();
        if (is_first) on_wait();
        std::this_thread::sleep_for(kLockNap);
    }
    return lock;
}

Result<std::shared_ptr<void>> HubCache::lock(std::string_view etag, const std::function<bool()>& stop,
                                             const std::function<void()>& on_wait) const {
    return lock_file(folder_ / ".locks" / entry_ / (std::string(etag) + ".lock"), stop, on_wait);
}

Status HubCache::link(std::string_view commit, std::string_view path, std::string_view etag) const {
    CHECK(is_inner_path(path) && is_hex(commit, 40));
    const fs::path link = snapshot(commit) / path;
    TRY(make_folder(link.parent_path()));
    fs::path target = "../..";
    for (const char c : path) {
        if (c == '/') target /= "..";
    }
    target = target / "blobs" / etag;
    std::error_code error;
    if (fs::is_symlink(link, error) && fs::read_symlink(link, error) == target) return Ok{};
    const fs::path temporary = link.string() + ".tandem-link";
    fs::remove(temporary, error);
    fs::create_symlink(target, temporary, error);
    if (!error) fs::rename(temporary, link, error);
    if (error) return fail("{}: cannot be linked: {}", link.string(), error.message());
    return Ok{};
}

Status HubCache::set_ref(std::string_view revision, std::string_view commit, const std::function<bool()>& stop) const {
    if (!is_inner_path(revision)) return Ok{};
    const fs::path path = root_ / "refs" / revision;
    TRY(make_folder(path.parent_path()));
    // By a name that the next one knows too: whoever is killed leaves nothing for good.
    const std::shared_ptr<void> lock = TRY(this->lock("refs", stop, [] {}));
    const fs::path temporary = path.string() + ".tandem-ref";
    std::error_code error;
    fs::remove(temporary, error);
    TRY(write_file(temporary, commit));
    fs::rename(temporary, path, error);
    if (error) return fail("{}: cannot be replaced: {}", path.string(), error.message());
    return Ok{};
}

std::string HubCache::ref(std::string_view revision) const {
    const Result<std::string> text = read_text_file(root_ / "refs" / revision, 64);
    return text && is_hex(*text, 40) ? *text : std::string();
}

}  // namespace tandem::hub
