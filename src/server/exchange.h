// Exchange: one request's answer on its way from whoever makes it to the connection that sends it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/guard.h"

namespace tandem::server {

class WakeBatch;

struct Response {
    int status = 200;
    std::string content_type = "application/json";
    Headers headers = {};
    std::string body = {};
};

// `body` is the error in the shape of its API; the headers say whether to try again.
Response error_response(const ApiError& error, std::string body);

// What is new for the connection.
struct Output {
    std::optional<Response> head = {};  // once: its body is all there is, unless it is the head of a stream
    bool streams = false;               // of the head
    std::string bytes = {};             // of the stream
    bool ended = false;                 // there is no more
    // When the engine had said the first of it.
    std::optional<std::chrono::steady_clock::time_point> since = {};
};

class Exchange {
  public:
    Exchange() = default;
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;
    virtual ~Exchange() = default;

    // The connection's side. take() is called after a wake, and when nothing was sent for a tick().
    virtual Output take(bool ticked) = 0;
    virtual std::chrono::milliseconds tick() const { return std::chrono::hours(1); }
    // The client is gone, or the server stops. From any thread.
    virtual void cancel() {}

    // `wake` is called from any thread, when there is something to take; not again before it was taken. With a batch it
    // may wait for the others of the batch.
    void on_wake(std::function<void(WakeBatch*)> wake);

  protected:
    void wake(WakeBatch* batch = nullptr);
    void taken();  // in take(), before looking

  private:
    std::mutex mutex_;
    std::function<void(WakeBatch*)> wake_;
    bool awake_ = false;
};

// An answer that is there all at once. From any thread, once.
class SimpleExchange final : public Exchange {
  public:
    void respond(Response response);
    Output take(bool ticked) override;

  private:
    std::mutex mutex_;
    std::optional<Response> response_;
};

}  // namespace tandem::server
