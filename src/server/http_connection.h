// Connection: one client's connection: reads requests, hands them to the App, sends what comes back.
#pragma once

#include "server/http_transport.h"  // first: see there

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>

#include "server/app.h"
#include "server/http_server.h"
#include "server/wake_queue.h"

namespace tandem::server {

// What the connections of a server share.
struct HttpShared {
    App& app;
    const HttpOptions& options;
    std::atomic<int> connections = 0;
    // Of the bodies that are being read, or wait to be parsed.
    std::shared_ptr<std::atomic<size_t>> body_bytes = std::make_shared<std::atomic<size_t>>(0);
    std::atomic<bool> draining = false;
};

class Connection : public std::enable_shared_from_this<Connection> {
  public:
    // `wakes` is of the thread that serves it.
    Connection(HttpShared& shared, std::unique_ptr<Transport> transport, std::shared_ptr<WakeQueue> wakes);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // All requests of the connection, until it ends.
    asio::awaitable<void> serve();

  private:
    struct Incoming;

    asio::awaitable<void> discard();
    asio::awaitable<bool> serve_request();  // false: it was the last
    asio::awaitable<bool> read_head(Incoming& request);
    asio::awaitable<bool> admit(Incoming& request);
    asio::awaitable<bool> read_body(Incoming& request);
    asio::awaitable<std::optional<ApiError>> receive_body(Incoming& request);
    std::optional<ApiError> feed(Incoming& request);
    asio::awaitable<bool> read_more(std::chrono::steady_clock::time_point until);
    asio::awaitable<bool> refuse(Incoming& request, Response response);
    asio::awaitable<void> answer(Incoming& request);
    asio::awaitable<void> pump(Incoming& request);
    asio::awaitable<bool> send(Incoming& request, const Output& output);
    asio::awaitable<bool> write(Incoming& request, std::string bytes);
    asio::awaitable<void> watch();
    asio::awaitable<void> stop_watching();
    asio::awaitable<bool> sleep(std::chrono::milliseconds time);
    void signal();

    HttpShared& shared_;
    std::unique_ptr<Transport> transport_;
    std::shared_ptr<WakeQueue> wakes_;
    std::string remote_;
    std::string buffer_;  // bytes that have come and are not used yet
    asio::steady_timer timer_;
    std::shared_ptr<Exchange> exchange_;  // while a request is answered
    bool signalled_ = false;
    bool answering_ = false;
    bool watching_ = false;    // watch() has not ended
    bool gone_ = false;        // the client
    bool has_unread_ = false;  // the last request was refused before all of it had come
};

}  // namespace tandem::server
