// Fetches one file over several connections at once, through cut lines and faults of servers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "hub/http.h"

namespace tandem::hub {

struct DownloadOptions {
    std::string url;
    std::filesystem::path path;     // where it lies in the end
    std::filesystem::path partial;  // and meanwhile
    uint64_t size_bytes = 0;        // as it was listed; with no checksum: as the address says
    std::string etag;               // the checksum to have, as for Digest; empty: none is known
    std::string identity;           // of the content, where there is no checksum
    int streams = 8;
    uint64_t piece_bytes = 32 << 20;
    std::function<void(uint64_t done_bytes)> progress = [](uint64_t) {};
};

// What is there of it from an earlier run is not fetched again. After an error, and after Http's stop, what has arrived
// is kept for the next; but for what has the wrong checksum.
Status download(Http& http, const DownloadOptions& options);

// What an address says about its file before it is fetched.
struct FileHead {
    uint64_t size_bytes = 0;
    std::string etag = {};      // when it is a SHA-256; else empty
    std::string identity = {};  // what tells this content from a later one; empty: nothing does
};
Result<FileHead> look_at(Http& http, const std::string& url);

}  // namespace tandem::hub
