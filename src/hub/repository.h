// A repository of the Hub as it lists itself: its files at one commit, with sizes and checksums.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hub/http.h"
#include "hub/reference.h"

namespace tandem::hub {

struct RemoteFile {
    std::string path;
    uint64_t size_bytes = 0;
    std::string etag = {};  // 64 hex digits: the SHA-256 of the content; 40: the SHA-1 that git has of it
};

struct Repository {
    std::string repo;
    std::string commit;
    std::vector<RemoteFile> files = {};
};

// A page of /api/models/.../tree; entries that could lead out of the repository are refused.
Result<std::vector<RemoteFile>> parse_tree(std::string_view json, std::string_view name);
// The commit in the answer of /api/models/.../revision/...
Result<std::string> parse_commit(std::string_view json, std::string_view name);
// The address of `Link: <...>; rel="next"`; empty: this was the last page.
std::string next_page(std::string_view link);

bool is_hex(std::string_view text, size_t digits);

// Everything of a revision, of one commit.
Result<Repository> list_repository(Http& http, const Reference& reference);
// Where a file of it is.
std::string file_url(const Places& places, const Repository& repository, std::string_view path);

}  // namespace tandem::hub
