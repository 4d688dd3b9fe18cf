#include "server/http_connection.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/log.h"
#include "server/framing.h"

namespace tandem::server {

namespace {

namespace http = boost::beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr size_t kReadBytes = 16 << 10;
constexpr size_t kMostDiscarded = 16 << 20;
constexpr size_t kMostUnparsed = 32 << 10;  // of a body: what the parser takes only when all of it is there

std::chrono::milliseconds time_left(Clock::time_point until) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    return std::max(left, std::chrono::milliseconds(1));
}

std::string lower_case(std::string_view text) {
    std::string result(text);
    for (char& letter : result) {
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    }
    return result;
}

std::string_view view(boost::string_view text) {
    return {text.data(), text.size()};
}

// The bytes of an answer's head. `length` is that of its body; none: it comes in chunks, or until the end.
std::string head_of(const Response& response, const Headers& headers, std::optional<size_t> length, bool chunked,
                    bool keeps_alive) {
    std::string head = fmt::format("HTTP/1.1 {} {}\r\n", response.status,
                                   view(http::obsolete_reason(static_cast<http::status>(response.status))));
    const auto add = [&head](std::string_view name, std::string_view value) {
        head.append(name).append(": ").append(value).append("\r\n");
    };
    if (!response.content_type.empty()) add("Content-Type", response.content_type);
    if (length) add("Content-Length", std::to_string(*length));
    if (chunked) add("Transfer-Encoding", "chunked");
    if (!length) {
        add("Cache-Control", "no-cache");
        add("X-Accel-Buffering", "no");  // nginx would hold the stream back
    }
    add("X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : response.headers) add(name, value);
    for (const auto& [name, value] : headers) add(name, value);
    add("Connection", keeps_alive ? "keep-alive" : "close");
    return head + "\r\n";
}

ApiError status_error(int status, std::string message) {
    return {.status = status, .message = std::move(message)};
}

// What a parser that gave up has to say.
ApiError parse_error(const error_code& error, const HttpOptions& options) {
    if (error == http::error::header_limit) {
        return status_error(431, fmt::format("the head of the request has more than {} bytes", options.header_bytes));
    }
    if (error == http::error::body_limit) {
        return status_error(413, fmt::format("the body of the request has more than the {} bytes that the server takes "
                                             "(--max-body)",
                                             options.body_bytes));
    }
    return status_error(400, "this is not HTTP: " + error.message());
}

}  // namespace

// Counts the bytes of a body among those of all, as long as it lives.
class BodyRoom {
  public:
    explicit BodyRoom(std::shared_ptr<std::atomic<size_t>> all) : all_(std::move(all)) {}
    ~BodyRoom() { *all_ -= bytes_; }
    BodyRoom(const BodyRoom&) = delete;
    BodyRoom& operator=(const BodyRoom&) = delete;

    size_t bytes() const { return bytes_; }
    // Returns those of all.
    size_t add(size_t bytes) {
        bytes_ += bytes;
        return *all_ += bytes;
    }

  private:
    std::shared_ptr<std::atomic<size_t>> all_;
    size_t bytes_ = 0;
};

struct Connection::Incoming {
    http::request_parser<http::string_body> parser;
    CallPtr call;  // null until it was admitted or refused
    bool has_head = false;
    bool keeps_alive = false;
    bool is_head = false;
    bool chunked = false;  // the answer
    bool responded = false;
    bool failed = false;  // the connection is of no more use
    int status = 0;
    uint64_t sent_bytes = 0;
};

Connection::Connection(HttpShared& shared, std::unique_ptr<Transport> transport, std::shared_ptr<WakeQueue> wakes)
    : shared_(shared),
      transport_(std::move(transport)),
      wakes_(std::move(wakes)),
      timer_(transport_->socket().get_executor()) {
    ++shared_.connections;
    error_code error;
    const auto endpoint = transport_->socket().remote_endpoint(error);
    if (!error) remote_ = endpoint.address().to_string(error);
}

Connection::~Connection() {
    if (exchange_) {  // the server stops in the middle of an answer
        exchange_->on_wake(nullptr);
        exchange_->cancel();
    }
    --shared_.connections;
}

asio::awaitable<void> Connection::serve() {
    const std::shared_ptr<Connection> self = shared_from_this();
    const bool begun = co_await transport_->begin(shared_.options.header_time);
    if (!begun) co_return;
    for (;;) {
        const bool more = co_await serve_request();
        if (!more) break;
    }
    co_await transport_->end();
    if (has_unread_) co_await discard();
}

// Reads a body that was refused for a while: closing at once would reset the connection, and the client would see
// that and not the answer.
asio::awaitable<void> Connection::discard() {
    const Clock::time_point until = Clock::now() + std::chrono::seconds(2);
    size_t left = kMostDiscarded;
    buffer_.resize(kReadBytes);
    while (left > 0 && Clock::now() < until) {
        const size_t count = co_await transport_->read_raw(buffer_.data(), buffer_.size(), time_left(until));
        if (count == 0) co_return;
        left -= std::min(left, count);
    }
}

asio::awaitable<bool> Connection::serve_request() {
    Incoming request;
    request.parser.header_limit(static_cast<uint32_t>(shared_.options.header_bytes));
    request.parser.body_limit(shared_.options.body_bytes);
    const bool has_head = co_await read_head(request);
    if (!has_head) co_return false;
    const bool admitted = co_await admit(request);
    bool has_body = false;
    if (admitted) has_body = co_await read_body(request);
    if (has_body) {
        exchange_ = shared_.app.handle(request.call);
        co_await answer(request);
        exchange_.reset();
        shared_.app.ended(*request.call);
    }
    if (request.call) shared_.app.finished(*request.call, request.status, request.sent_bytes);
    co_return request.keeps_alive && !request.failed && !gone_;
}

// ---- Reading

asio::awaitable<bool> Connection::read_more(Clock::time_point until) {
    const size_t before = buffer_.size();
    buffer_.resize(before + kReadBytes);
    const size_t count = co_await transport_->read(buffer_.data() + before, kReadBytes, time_left(until));
    buffer_.resize(before + count);
    co_return count > 0 && Clock::now() < until;
}

// Gives the parser what has come; an error is what the client gets to read.
std::optional<ApiError> Connection::feed(Incoming& request) {
    error_code error;
    size_t used = 0;
    try {
        used = request.parser.put(asio::buffer(buffer_), error);
    } catch (const std::exception&) {  // Beast counts the bytes of a field in 16 bits
        return status_error(431, "a header of the request is too large");
    }
    const std::string_view parsed = std::string_view(buffer_).substr(0, used);
    if (!request.has_head &&
        (parsed.find("\r\n ") != std::string_view::npos || parsed.find("\r\n\t") != std::string_view::npos)) {
        return status_error(400, "a header goes on in a second line: write it in one");
    }
    buffer_.erase(0, used);
    if (error && error != http::error::need_more) return parse_error(error, shared_.options);
    if (request.has_head && !request.parser.is_done() && buffer_.size() > kMostUnparsed) {
        return status_error(431, "the trailers of the request, or the extensions of a chunk, are too large");
    }
    return std::nullopt;
}

asio::awaitable<bool> Connection::read_head(Incoming& request) {
    if (buffer_.empty()) {
        const bool more = co_await read_more(Clock::now() + shared_.options.idle_time);
        if (!more) co_return false;
    }
    const Clock::time_point until = Clock::now() + shared_.options.header_time;
    while (!request.parser.is_header_done()) {
        if (const std::optional<ApiError> wrong = feed(request)) {
            has_unread_ = true;
            co_await refuse(request, shared_.app.refuse(*wrong));
            co_return false;
        }
        if (request.parser.is_header_done()) break;
        const bool more = co_await read_more(until);
        if (!more) co_return false;
    }
    request.has_head = true;
    co_return true;
}

// Before the body: nobody may send one that will not be used.
asio::awaitable<bool> Connection::admit(Incoming& request) {
    auto& message = request.parser.get();
    request.keeps_alive = message.keep_alive() && !shared_.draining;
    request.is_head = message.method() == http::verb::head;
    request.chunked = message.version() >= 11;
    RequestHead head{.method = std::string(view(message.method_string())),
                     .target = std::string(view(message.target()))};
    for (const auto& field : message) {
        head.headers.emplace_back(lower_case(view(field.name_string())), std::string(view(field.value())));
    }
    const Reply<Framing> framing = framing_of(head, message.version() < 11);
    const bool is_encoded = !head.all("content-encoding").empty();
    App::Admission admission = shared_.app.admit(std::move(head), remote_);
    request.call = admission.call;
    const bool admitted = !admission.refusal;
    if (admitted && !framing) {
        admission.refusal = shared_.app.refuse(framing.error());
    } else if (admitted && is_encoded) {
        admission.refusal = shared_.app.refuse(status_error(415, "send the body as it is, without Content-Encoding"));
    }
    if (!admission.refusal) co_return true;
    if (!framing || *framing != Framing::no_body) {  // where the next request would begin is not known
        request.keeps_alive = false;
        has_unread_ = true;
    }
    co_await refuse(request, std::move(*admission.refusal));
    if (admitted) shared_.app.ended(*request.call);
    co_return false;
}

asio::awaitable<bool> Connection::read_body(Incoming& request) {
    const std::string expected = lower_case(view(request.parser.get()[http::field::expect]));
    if (expected == "100-continue" && request.chunked) co_await write(request, "HTTP/1.1 100 Continue\r\n\r\n");
    const std::optional<ApiError> wrong = co_await receive_body(request);
    if (!wrong) {
        request.call->body = std::move(request.parser.get().body());
        co_return true;
    }
    request.keeps_alive = false;
    has_unread_ = true;
    co_await refuse(request, shared_.app.refuse(*wrong));
    shared_.app.ended(*request.call);
    co_return false;
}

// All of it into the parser.
asio::awaitable<std::optional<ApiError>> Connection::receive_body(Incoming& request) {
    const HttpOptions& options = shared_.options;
    const Clock::time_point until = Clock::now() + options.body_time;
    const auto room = std::make_shared<BodyRoom>(shared_.body_bytes);
    request.call->room = room;
    request.parser.eager(true);
    for (;;) {
        if (request.parser.is_done()) co_return std::nullopt;
        if (!buffer_.empty()) {
            if (std::optional<ApiError> wrong = feed(request)) co_return wrong;
            if (request.parser.is_done()) co_return std::nullopt;
        }
        const size_t before = buffer_.size();
        const bool more = co_await read_more(until);
        if (!more) {
            request.failed = true;
            co_return status_error(408, "the body of the request did not come");
        }
        const size_t all = room->add(buffer_.size() - before);
        if (room->bytes() > 2 * options.body_bytes + options.header_bytes) {  // of one that is in order, at most half
            co_return status_error(413, "the body comes in chunks that are too small: send larger ones");
        }
        if (all > options.all_body_bytes) {
            co_return ApiError{.status = 503,
                               .type = "overloaded_error",
                               .message = "too many large requests at once",
                               .retry_after_s = 1};
        }
    }
}

// ---- Answering

asio::awaitable<bool> Connection::refuse(Incoming& request, Response response) {
    Output output;
    output.head = std::move(response);
    output.ended = true;
    const bool sent = co_await send(request, output);
    co_return sent;
}

asio::awaitable<bool> Connection::write(Incoming& request, std::string bytes) {
    request.sent_bytes += bytes.size();
    const bool written = co_await transport_->write(bytes, shared_.options.write_time);
    if (!written) request.failed = true;
    co_return written;
}

asio::awaitable<bool> Connection::send(Incoming& request, const Output& output) {
    std::string bytes;
    const bool chunked = request.chunked;
    if (output.head) {
        request.status = output.head->status;
        request.responded = true;
        const bool has_length = !output.streams;
        if (!has_length && !chunked) request.keeps_alive = false;
        const Headers none;
        const bool no_body = request.status == 204 || request.status == 304;
        bytes = head_of(*output.head, request.call ? request.call->headers : none,
                        has_length && !no_body ? std::optional(output.head->body.size()) : std::nullopt,
                        !has_length && chunked, request.keeps_alive);
        if (has_length && !request.is_head) bytes += output.head->body;
    }
    if (!output.bytes.empty() && !request.is_head) {
        bytes += chunked ? fmt::format("{:x}\r\n{}\r\n", output.bytes.size(), output.bytes) : output.bytes;
    }
    const bool ends_stream = output.ended && !(output.head && !output.streams) && chunked && !request.is_head;
    if (ends_stream) bytes += "0\r\n\r\n";
    if (bytes.empty()) co_return true;
    const bool written = co_await write(request, std::move(bytes));
    co_return written;
}

asio::awaitable<void> Connection::answer(Incoming& request) {
    exchange_->on_wake([wakes = wakes_, weak = weak_from_this()](WakeBatch* batch) {
        const auto signal = [weak] {
            if (const auto self = weak.lock()) self->signal();
        };
        wakes->add(signal, batch);
    });
    gone_ = false;
    watching_ = true;
    answering_ = true;
    asio::co_spawn(
        timer_.get_executor(), [self = shared_from_this()] { return self->watch(); }, asio::detached);
    co_await pump(request);
    exchange_->on_wake(nullptr);
    if (gone_ || request.failed) exchange_->cancel();
    if (gone_ && !request.responded) request.status = 499;
    co_await stop_watching();
}

asio::awaitable<void> Connection::pump(Incoming& request) {
    Exchange* const exchange = exchange_.get();
    Clock::time_point last_sent = Clock::now();
    for (;;) {
        const bool ticked = Clock::now() - last_sent >= exchange->tick();
        Output output = exchange->take(ticked);
        if (output.head || !output.bytes.empty() || output.ended) {
            if (output.ended) shared_.app.free_place(*request.call);
            const bool sent = co_await send(request, output);
            if (sent && output.since) shared_.app.sent_after(Clock::now() - *output.since);
            if (!sent || output.ended) co_return;
            last_sent = Clock::now();
        }
        const auto rest = exchange->tick() - (Clock::now() - last_sent);
        co_await sleep(
            std::max(std::chrono::duration_cast<std::chrono::milliseconds>(rest), std::chrono::milliseconds(1)));
        if (gone_) co_return;
    }
}

// Until signal() or so long.
asio::awaitable<bool> Connection::sleep(std::chrono::milliseconds time) {
    if (!signalled_) {
        timer_.expires_after(time);
        error_code ignored;
        co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    co_return std::exchange(signalled_, false);
}

void Connection::signal() {
    signalled_ = true;
    timer_.cancel();
}

// Reads on while the client is being answered, to notice that it closes the connection: TLS tells that in no other way.
// Bytes are the next request, which comes when this one is done.
asio::awaitable<void> Connection::watch() {
    const std::shared_ptr<Connection> self = shared_from_this();
    while (answering_ && !gone_ && buffer_.size() < shared_.options.header_bytes) {
        const size_t before = buffer_.size();
        buffer_.resize(before + kReadBytes);
        const size_t count = co_await transport_->read(buffer_.data() + before, kReadBytes, Transport::kNoLimit);
        buffer_.resize(before + count);
        gone_ = count == 0 && answering_;
    }
    watching_ = false;
    signal();
}

asio::awaitable<void> Connection::stop_watching() {
    answering_ = false;
    error_code ignored;
    if (watching_) transport_->socket().cancel(ignored);
    while (watching_) {
        constexpr std::chrono::milliseconds kLong{1000};
        co_await sleep(kLong);
    }
    signalled_ = false;
}

}  // namespace tandem::server
