// AccessLog: one line of JSON for each request, written by a thread of its own, so that no request waits for a disk.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"

namespace tandem::server {

struct AccessEntry {
    std::chrono::system_clock::time_point time = {};
    std::string request_id = {};
    std::string remote = {};  // address of the client
    std::string key = {};     // its name; empty: there was none
    std::string method = {};
    std::string path = {};
    int status = 0;
    double seconds = 0;
    uint64_t sent_bytes = 0;
    // Of an answer.
    std::string model = {};
    std::string finish = {};
    int prompt_tokens = 0;
    int cached_tokens = 0;
    int generated_tokens = 0;
    double first_token_seconds = 0;
    std::string error = {};  // what the client was told
};

std::string to_json_line(const AccessEntry& entry);

// The id that a client gave, when it is fit for logs and headers; otherwise a new one.
std::string request_id(std::string_view given);

// What the disk does not take is dropped and counted, and the count stands in the next line that is written.
class AccessLog {
  public:
    // Appends. "-" is standard error.
    static Result<std::unique_ptr<AccessLog>> open(const std::filesystem::path& path);
    AccessLog(const AccessLog&) = delete;
    AccessLog& operator=(const AccessLog&) = delete;
    ~AccessLog();  // writes what is there

    // From any thread; never waits.
    void add(const AccessEntry& entry);

  private:
    AccessLog(int fd, std::string name);
    void run();
    bool put(std::string_view text);

    static constexpr size_t kMostLines = 8192;  // that wait

    int fd_;
    std::string name_;
    bool in_line_ = false;  // the last one was only written in part
    bool has_failed_ = false;

    std::mutex mutex_;  // of what follows
    std::condition_variable wake_;
    std::deque<std::string> lines_;
    uint64_t dropped_ = 0;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace tandem::server
