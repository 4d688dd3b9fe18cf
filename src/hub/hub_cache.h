// The cache of the Hub's programs as it lies on disk, so that one download serves them all.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem::hub {

// Of one repository: blobs by their checksum, and for each commit a folder of links to them.
class HubCache {
  public:
    HubCache(std::filesystem::path folder, std::string_view repo);

    const std::filesystem::path& root() const { return root_; }
    std::filesystem::path blob(std::string_view etag) const { return root_ / "blobs" / etag; }
    std::filesystem::path snapshot(std::string_view commit) const { return root_ / "snapshots" / commit; }

    // Waits for others who fetch the same; until the result is gone nobody else does. Null: `stop` said so.
    Result<std::shared_ptr<void>> lock(std::string_view etag, const std::function<bool()>& stop,
                                       const std::function<void()>& on_wait) const;
    Status make_folders() const;
    // The file's name in the snapshot, as a link to the blob.
    Status link(std::string_view commit, std::string_view path, std::string_view etag) const;
    // What the branch stands for from now on.
    Status set_ref(std::string_view revision, std::string_view commit, const std::function<bool()>& stop) const;
    std::string ref(std::string_view revision) const;  // empty: not known

  private:
    std::filesystem::path folder_;  // of all repositories
    std::filesystem::path root_;
    std::string entry_;  // "models--org--name"
};

// "org/name" of "models--org--name"; empty: another thing.
std::string repo_of_entry(std::string_view entry);

// A lock on a file of its own.
Result<std::shared_ptr<void>> lock_file(const std::filesystem::path& path, const std::function<bool()>& stop,
                                        const std::function<void()>& on_wait);

}  // namespace tandem::hub
