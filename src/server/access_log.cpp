#include "server/access_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "server/sse.h"
#include "server/time_text.h"

namespace tandem::server {

namespace {

constexpr size_t kMostIdBytes = 128;
constexpr size_t kMostTextBytes = 2048;  // of a field that a client has a say in

double in_milliseconds(double seconds) {
    return static_cast<double>(static_cast<int64_t>(seconds * 1e6)) / 1e3;
}

}  // namespace

std::string to_json_line(const AccessEntry& entry) {
    nlohmann::ordered_json line = {{"time", iso_time(entry.time)}, {"id", entry.request_id}};
    const auto add_text = [&](const char* name, const std::string& value) {
        if (!value.empty()) line[name] = value.substr(0, kMostTextBytes);
    };
    add_text("remote", entry.remote);
    add_text("key", entry.key);
    add_text("method", entry.method);
    add_text("path", entry.path);
    line["status"] = entry.status;
    line["ms"] = in_milliseconds(entry.seconds);
    line["bytes"] = entry.sent_bytes;
    add_text("model", entry.model);
    add_text("finish", entry.finish);
    if (entry.prompt_tokens > 0) {
        line["prompt_tokens"] = entry.prompt_tokens;
        line["cached_tokens"] = entry.cached_tokens;
        line["generated_tokens"] = entry.generated_tokens;
    }
    if (entry.first_token_seconds > 0) line["first_token_ms"] = in_milliseconds(entry.first_token_seconds);
    add_text("error", entry.error);
    return dump(line) + "\n";
}

std::string request_id(std::string_view given) {
    const auto is_fine = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
    };
    const bool usable =
        !given.empty() && given.size() <= kMostIdBytes && std::all_of(given.begin(), given.end(), is_fine);
    return usable ? std::string(given) : "req_" + random_id();
}

Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::filesystem::path& path) {
    const int fd =
        path == "-" ? ::dup(STDERR_FILENO) : ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0) return fail("{}: cannot write the access log: {}", path.string(), std::strerror(errno));
    return std::unique_ptr<AccessLog>(new AccessLog(fd, path.string()));
}

AccessLog::AccessLog(int fd, std::string name) : fd_(fd), name_(std::move(name)), thread_([this] { run(); }) {}

AccessLog::~AccessLog() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
    ::close(fd_);
}

void AccessLog::add(const AccessEntry& entry) {
    std::string line = to_json_line(entry);
    {
        const std::lock_guard lock(mutex_);
        if (lines_.size() >= kMostLines) {
            ++dropped_;
            return;
        }
        lines_.push_back(std::move(line));
    }
    wake_.notify_one();
}

void AccessLog::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        wake_.wait(lock, [this] { return stopping_ || !lines_.empty(); });
        if (lines_.empty()) return;
        const std::string line = std::move(lines_.front());
        lines_.pop_front();
        const uint64_t dropped = std::exchange(dropped_, 0);
        lock.unlock();
        const bool written = (dropped == 0 || put(fmt::format("{{\"dropped_lines\":{}}}\n", dropped))) && put(line);
        lock.lock();
        if (!written) dropped_ += dropped + 1;
    }
}

// False: the line is not there, or only a part of it.
bool AccessLog::put(std::string_view text) {
    const std::string whole = (in_line_ ? "\n" : "") + std::string(text);
    std::string_view rest = whole;
    while (!rest.empty()) {
        const ssize_t count = ::write(fd_, rest.data(), rest.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        in_line_ = rest[static_cast<size_t>(count) - 1] != '\n';
        rest.remove_prefix(static_cast<size_t>(count));
    }
    if (!rest.empty() && !std::exchange(has_failed_, true))
        log::warn("{}: cannot write the access log: {}; requests go on without it", name_, std::strerror(errno));
    if (rest.empty()) has_failed_ = false;
    return rest.empty();
}

}  // namespace tandem::server
