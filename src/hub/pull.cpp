#include "hub/pull.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "base/units.h"
#include "hub/download.h"
#include "hub/hub_cache.h"
#include "hub/partial_file.h"
#include "hub/repository.h"
#include "hub/selection.h"

namespace tandem::hub {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSpareBytes = uint64_t{64} << 20;  // that a disk should keep

// The room that a download has taken already.
uint64_t allocated_bytes(const fs::path& path) {
    std::error_code error;
    const uint64_t size = fs::file_size(path, error);
    return error ? 0 : size;
}

Status check_disk(const fs::path& folder, uint64_t needed_bytes) {
    struct statvfs disk {};
    if (::statvfs(folder.c_str(), &disk) != 0) return Ok{};  // the write will tell
    const uint64_t free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
    if (needed_bytes == 0 || needed_bytes + kSpareBytes <= free_bytes) return Ok{};
    return fail("{}: {} are to be fetched and the disk has {} free: make room, or set HF_HOME to another disk",
                folder.string(), format_bytes(needed_bytes), format_bytes(free_bytes));
}

std::string host_of(const Http& http) {
    return http.options().places.endpoint;
}

// One pull from the Hub.
class HubPull {
  public:
    HubPull(Http& http, const PullEvents& events, Repository repository)
        : http_(http),
          events_(events),
          repository_(std::move(repository)),
          cache_(http.options().places.hub_cache, repository_.repo) {}

    Result<LocalModel> run(const Reference& reference);

  private:
    const RemoteFile& remote(const std::string& path) const;
    Status fetch(const RemoteFile& file);
    Status fetch_locked(const RemoteFile& file, const fs::path& partial);
    PullEvents::Step step(const RemoteFile& file, uint64_t file_done) const {
        return {file.path, file.etag, file.size_bytes, file_done, done_bytes_ + file_done, size_bytes_};
    }

    Http& http_;
    const PullEvents& events_;
    Repository repository_;
    HubCache cache_;
    uint64_t done_bytes_ = 0;  // of files that are there
    uint64_t size_bytes_ = 0;
};

const RemoteFile& HubPull::remote(const std::string& path) const {
    const auto found = std::find_if(repository_.files.begin(), repository_.files.end(),
                                    [&](const RemoteFile& file) { return file.path == path; });
    CHECK(found != repository_.files.end(), "what was selected is of the repository");
    return *found;
}

Status HubPull::fetch_locked(const RemoteFile& file, const fs::path& partial) {
    const DownloadOptions options{.url = file_url(http_.options().places, repository_, file.path),
                                  .path = cache_.blob(file.etag),
                                  .partial = partial,
                                  .size_bytes = file.size_bytes,
                                  .etag = file.etag,
                                  .identity = {},
                                  .progress = [&](uint64_t done) { events_.step(step(file, done)); }};
    const Status first = download(http_, options);
    const bool is_wrong = !first && !is_stopped(first.error()) && !fs::exists(partial);
    if (!is_wrong) return first;
    events_.note(fmt::format("{}; it is fetched once more", first.error().message));
    return download(http_, options);
}

Status HubPull::fetch(const RemoteFile& file) {
    const std::shared_ptr<void> lock = TRY(cache_.lock(file.etag, http_.options().stop, [&] {
        events_.note(fmt::format("{}: another program fetches it: waiting", file.path));
    }));
    std::error_code error;
    const fs::path blob = cache_.blob(file.etag);
    const bool is_there = fs::file_size(blob, error) == file.size_bytes && !error;
    events_.step(step(file, is_there ? file.size_bytes : 0));
    if (!is_there) TRY(fetch_locked(file, blob.string() + std::string(kPartialSuffix)));
    TRY(cache_.link(repository_.commit, file.path, file.etag));
    done_bytes_ += file.size_bytes;
    return Ok{};
}

Result<LocalModel> HubPull::run(const Reference& reference) {
    std::vector<FileEntry> entries;
    for (const RemoteFile& file : repository_.files) entries.push_back({file.path, file.size_bytes});
    const Selection selection = TRY(select_variant(entries, reference.tag, reference.repo));
    const Variant& variant = selection.variant;
    TRY(cache_.make_folders());

    size_bytes_ = variant.size_bytes();
    uint64_t to_fetch = 0;
    uint64_t to_allocate = 0;
    for (const FileEntry& entry : variant.files) {
        const fs::path blob = cache_.blob(remote(entry.path).etag);
        if (allocated_bytes(blob) == entry.size_bytes) continue;
        to_fetch += entry.size_bytes;
        const uint64_t taken = allocated_bytes(blob.string() + std::string(kPartialSuffix));
        to_allocate += entry.size_bytes - std::min(entry.size_bytes, taken);
    }
    TRY(check_disk(cache_.root(), to_allocate));
    const std::string name = repository_.repo + ":" + variant.label;
    TRY(events_.plan({.name = name,
                      .why = selection.why,
                      .size_bytes = size_bytes_,
                      .to_fetch_bytes = to_fetch,
                      .files = static_cast<int>(variant.files.size())}));
    for (const FileEntry& entry : variant.files) TRY(fetch(remote(entry.path)));
    TRY(cache_.set_ref(reference.revision, repository_.commit,
                       http_.options().stop));  // last: until now the old version was whole

    LocalModel model{.name = name, .path = cache_.snapshot(repository_.commit), .files = {}, .size_bytes = size_bytes_};
    model.owner = Owner::hugging_face;
    for (const FileEntry& entry : variant.files) model.files.push_back(model.path / entry.path);
    if (!variant.first.empty()) model.path /= variant.first;
    return model;
}

// "model" of "https://host/path/model.gguf?signature"
std::string stem_of(std::string_view url) {
    url = url.substr(0, url.find_first_of("?#"));
    std::string name(url.substr(url.find_last_of('/') + 1));
    return name.substr(0, name.size() - std::string_view(".gguf").size());
}

Result<LocalModel> pull_address(Http& http, const std::string& url, const PullEvents& events) {
    const fs::path& folder = http.options().places.own;
    if (folder.empty()) return fail("{}: there is no home to put it in: set HOME", url);
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return fail("{}: cannot be made: {}", folder.string(), error.message());
    const std::string name = stem_of(url);
    if (name.empty()) return fail("{}: the file has no name", url);
    const fs::path path = folder / (file_name_of(name) + ".gguf");
    const fs::path partial = path.string() + std::string(kPartialSuffix);
    const std::shared_ptr<void> lock = TRY(lock_file(folder / ".lock", http.options().stop, [&] {
        events.note(fmt::format("{}: another program fetches it: waiting", name));
    }));

    const FileHead head = TRY(look_at(http, url));
    if (head.etag.empty() && head.identity.empty()) fs::remove(partial, error);  // it may be of another content
    const bool is_there = fs::exists(path, error);
    const uint64_t taken = allocated_bytes(partial);
    const uint64_t to_fetch = is_there ? 0 : head.size_bytes;
    if (!is_there) TRY(check_disk(folder, head.size_bytes - std::min(head.size_bytes, taken)));
    TRY(events.plan({.name = name, .why = "", .size_bytes = head.size_bytes, .to_fetch_bytes = to_fetch, .files = 1}));
    if (!is_there) {
        if (head.etag.empty()) events.note("the server gives no checksum: only the size can be checked");
        TRY(download(http, {.url = url,
                            .path = path,
                            .partial = partial,
                            .size_bytes = head.size_bytes,
                            .etag = head.etag,
                            .identity = head.identity,
                            .progress = [&](uint64_t done) {
                                events.step({name, head.etag, head.size_bytes, done, done, head.size_bytes});
                            }}));
    }
    return LocalModel{.name = name, .path = path, .files = {path}, .size_bytes = head.size_bytes};
}

}  // namespace

Result<LocalModel> pull(Http& http, const Reference& reference, const PullEvents& events) {
    if (reference.repo.empty()) return pull_address(http, reference.url, events);
    if (http.options().places.hub_cache.empty()) {
        return fail("{}: there is no place for models from {}: set HOME or HF_HOME", reference.repo, host_of(http));
    }
    return HubPull(http, events, TRY(list_repository(http, reference))).run(reference);
}

}  // namespace tandem::hub
