#include "hub/download.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <list>
#include <thread>

#include "hub/partial_file.h"
#include "hub/repository.h"

namespace tandem::hub {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMs = 100;

std::optional<uint64_t> number_in(std::string_view text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end == text.data()) return std::nullopt;
    return value;
}

// "bytes 100-199/1000"
struct ContentRange {
    uint64_t begin = 0;
    uint64_t size_bytes = 0;
};

std::optional<ContentRange> parse_range(std::string_view text) {
    constexpr std::string_view kUnit = "bytes ";
    const size_t slash = text.find('/');
    if (!text.starts_with(kUnit) || slash == std::string_view::npos) return std::nullopt;
    const std::optional<uint64_t> begin = text[kUnit.size()] == '*' ? 0 : number_in(text.substr(kUnit.size()));
    const std::optional<uint64_t> size = number_in(text.substr(slash + 1));
    if (!begin || !size) return std::nullopt;
    return ContentRange{*begin, *size};
}

std::string plain_etag(std::string_view text) {
    if (text.starts_with("W/")) text.remove_prefix(2);
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
    return std::string(text);
}

class Downloader;

// One request for a part of the file.
struct Stream {
    Downloader* owner = nullptr;
    Http::Handle handle;
    uint64_t at = 0;          // of the file: where the next byte belongs
    uint64_t end = 0;         // that was asked for
    bool is_range = false;    // that was asked for, not all of the file
    bool is_checked = false;  // that the answer is what was asked for
    HttpAnswer answer;
    std::optional<Error> error;  // of our own side: no other attempt helps
    char reason[CURL_ERROR_SIZE] = "";
};

class Downloader {
  public:
    Downloader(Http& http, const DownloadOptions& options, PartialFile& file)
        : http_(http), options_(options), file_(file), multi_(curl_multi_init(), curl_multi_cleanup) {}
    Downloader(const Downloader&) = delete;
    Downloader& operator=(const Downloader&) = delete;
    ~Downloader() {
        while (!streams_.empty()) drop(streams_.begin());
    }

    Status run();
    size_t take(Stream& stream, const char* data, size_t size);

  private:
    Status resolve();
    void start_streams();
    void start(uint64_t begin, uint64_t end);
    bool is_fetched(uint64_t piece_begin) const;
    Status end_streams();
    Status ended(Stream& stream, CURLcode code);
    Status retry(const AnswerHeaders& headers, const std::string& why);
    void drop(std::list<Stream>::iterator stream);
    bool check_answer(Stream& stream);

    Http& http_;
    const DownloadOptions& options_;
    PartialFile& file_;
    std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> multi_;
    std::list<Stream> streams_;
    std::string url_;         // where the bytes are; empty: to be asked for
    bool has_ranges_ = true;  // as far as one knows
    int failed_ = 0;          // attempts since the last byte
    Clock::time_point not_before_ = Clock::now();
};

size_t on_file_header(char* data, size_t size, size_t count, void* user) {
    static_cast<Stream*>(user)->answer.headers.add_line({data, size * count});
    return size * count;
}

size_t on_file_bytes(char* data, size_t size, size_t count, void* user) {
    auto& stream = *static_cast<Stream*>(user);
    return stream.owner->take(stream, data, size * count);
}

// Asks anew where the file is: what the Hub redirects to is good only for a while.
Status Downloader::resolve() {
    const HttpAnswer answer = TRY(http_.probe(options_.url));
    url_ = answer.url;
    if (answer.status == 200) has_ranges_ = false;
    return Ok{};
}

bool Downloader::is_fetched(uint64_t piece_begin) const {
    return std::any_of(streams_.begin(), streams_.end(), [&](const Stream& stream) {
        return piece_begin >= stream.at / options_.piece_bytes * options_.piece_bytes && piece_begin < stream.end;
    });
}

void Downloader::start(uint64_t begin, uint64_t end) {
    Stream& stream = streams_.emplace_back();
    stream.owner = this;
    stream.at = begin;
    stream.end = end;
    stream.answer.url = url_;
    stream.handle = http_.make_handle(url_);
    CURL* const curl = stream.handle.curl.get();
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_file_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &stream);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_file_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &stream);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, stream.reason);
    curl_easy_setopt(curl, CURLOPT_PRIVATE, &stream);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
    stream.is_range = has_ranges_;
    if (has_ranges_) curl_easy_setopt(curl, CURLOPT_RANGE, fmt::format("{}-{}", begin, end - 1).c_str());
    curl_multi_add_handle(multi_.get(), curl);
}

// Pieces are handed out in order, so that the checksum can follow.
void Downloader::start_streams() {
    if (Clock::now() < not_before_) return;
    if (!has_ranges_) {
        if (streams_.empty()) start(0, options_.size_bytes);
        return;
    }
    for (const PartialFile::Piece& piece : file_.pieces()) {
        if (streams_.size() >= static_cast<size_t>(options_.streams)) return;
        if (failed_ > 0 && !streams_.empty()) return;  // one is enough to see whether the server is well again
        if (!piece.is_done() && !is_fetched(piece.begin)) start(piece.next(), piece.end());
    }
}

// Of a stream's first bytes: whether they are those that were asked for.
bool Downloader::check_answer(Stream& stream) {
    long status = 0;
    curl_easy_getinfo(stream.handle.curl.get(), CURLINFO_RESPONSE_CODE, &status);
    stream.answer.status = static_cast<int>(status);
    if (status == 200 && stream.is_range) {
        has_ranges_ = false;  // it ignores the range: all of it from the beginning, by one stream
        return false;
    }
    if (status == 200) return true;
    if (status != 206) return false;
    const std::optional<ContentRange> range = parse_range(stream.answer.headers.find("content-range"));
    if (range && range->begin == stream.at && range->size_bytes == options_.size_bytes) return true;
    stream.error = fail(
        "{}: bytes from {} of {} were asked for and '{}' came: the file has changed, or a proxy is in "
        "the way",
        options_.url, stream.at, options_.size_bytes, stream.answer.headers.find("content-range"));
    return false;
}

size_t Downloader::take(Stream& stream, const char* data, size_t size) {
    if (!stream.is_checked && !check_answer(stream)) return 0;
    stream.is_checked = true;
    if (stream.at + size > stream.end) {
        stream.error = fail("{}: more arrives than its {} bytes: the address gives another file", options_.url,
                            options_.size_bytes);
        return 0;
    }
    const Status written = file_.write(stream.at, std::as_bytes(std::span(data, size)));
    if (!written) {
        stream.error = written.error();
        return 0;
    }
    stream.at += size;
    failed_ = 0;
    return size;
}

void Downloader::drop(std::list<Stream>::iterator stream) {
    curl_multi_remove_handle(multi_.get(), stream->handle.curl.get());
    streams_.erase(stream);
}

Status Downloader::retry(const AnswerHeaders& headers, const std::string& why) {
    const bool is_waiting = Clock::now() < not_before_;  // streams that fail together count once
    if (!is_waiting && ++failed_ > http_.options().tries) {
        return fail("{}: {}: gave up after {} attempts; the same command goes on from here", options_.url, why,
                    http_.options().tries);
    }
    not_before_ = std::max(not_before_, Clock::now() + http_.wait_after(std::max(failed_, 1), headers));
    return Ok{};
}

// What a request has come to; its stream is dropped afterwards.
Status Downloader::ended(Stream& stream, CURLcode code) {
    if (stream.error) return *stream.error;
    long status = 0;
    curl_easy_getinfo(stream.handle.curl.get(), CURLINFO_RESPONSE_CODE, &status);
    stream.answer.status = static_cast<int>(status);
    if (stream.is_checked && stream.at == stream.end) return Ok{};
    if (status == 200 && !stream.is_checked) return Ok{};  // without ranges, from the beginning
    if (stream.is_checked || status == 0 || status == 206 || status == 200) {
        return retry({}, *stream.reason != '\0' ? stream.reason
                         : code == CURLE_OK     ? "the connection was closed early"
                                                : curl_easy_strerror(code));
    }
    if (may_pass(stream.answer.status)) return retry(stream.answer.headers, fmt::format("status {}", status));
    if (status == 416) {
        return fail("{}: it has fewer than {} bytes now: the file has changed; try again", options_.url,
                    options_.size_bytes);
    }
    const bool is_elsewhere = url_ != options_.url;
    const bool is_refused = status == 401 || status == 403 || status == 404 || status == 410;
    if (is_elsewhere && is_refused && failed_ < http_.options().tries) {  // the address has expired
        ++failed_;
        url_.clear();
        return Ok{};
    }
    return http_.explain(stream.answer);
}

Status Downloader::end_streams() {
    int left = 0;
    while (const CURLMsg* const message = curl_multi_info_read(multi_.get(), &left)) {
        if (message->msg != CURLMSG_DONE) continue;
        const CURLcode code = message->data.result;
        Stream* ended_stream = nullptr;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &ended_stream);
        const Status status = ended(*ended_stream, code);
        drop(std::find_if(streams_.begin(), streams_.end(), [&](const Stream& s) { return &s == ended_stream; }));
        TRY(status);
        if (!has_ranges_ && streams_.size() > 0) {
            // Those that were asked for ranges are of no use where there are none.
            for (auto stream = streams_.begin(); stream != streams_.end();) drop(stream++);
        }
    }
    return Ok{};
}

Status Downloader::run() {
    while (!file_.is_done()) {
        if (http_.options().stop()) return stopped_error();
        if (url_.empty()) TRY(resolve());
        start_streams();
        int running = 0;
        curl_multi_perform(multi_.get(), &running);
        TRY(end_streams());
        options_.progress(file_.done_bytes());
        if (file_.is_done()) break;
        curl_multi_poll(multi_.get(), nullptr, 0, kPollMs, nullptr);
    }
    return Ok{};
}

}  // namespace

Status download(Http& http, const DownloadOptions& options) {
    const std::unique_ptr<PartialFile> file =
        TRY(PartialFile::open({.path = options.partial,
                               .size_bytes = options.size_bytes,
                               .identity = options.etag.empty() ? options.identity : options.etag,
                               .etag = options.etag,
                               .piece_bytes = options.piece_bytes}));
    options.progress(file->done_bytes());
    TRY(Downloader(http, options, *file).run());
    return file->finish(options.path);
}

Result<FileHead> look_at(Http& http, const std::string& url) {
    const HttpAnswer answer = TRY(http.probe(url));
    const AnswerHeaders& headers = answer.headers;
    const std::optional<ContentRange> range = parse_range(headers.find("content-range"));
    const std::optional<uint64_t> length =
        answer.status == 200 ? number_in(headers.find("content-length")) : std::nullopt;
    if (!range && !length) return fail("{}: the server does not say how long the file is", url);
    FileHead head{.size_bytes = range ? range->size_bytes : *length};
    const std::string etag = plain_etag(headers.find("etag"));
    if (is_hex(etag, 64)) head.etag = etag;
    const std::string_view changed = headers.find("last-modified");
    if (!etag.empty() || !changed.empty()) head.identity = fmt::format("{} {} {}", url, etag, changed);
    return head;
}

}  // namespace tandem::hub
