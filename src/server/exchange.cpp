#include "server/exchange.h"

namespace tandem::server {

Response error_response(const ApiError& error, std::string body) {
    Response response{.status = error.status, .headers = error.headers, .body = std::move(body)};
    if (error.retry_after_s > 0) response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
    if (!error.retry_helps()) response.headers.emplace_back("x-should-retry", "false");
    return response;
}

void Exchange::on_wake(std::function<void(WakeBatch*)> wake) {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
    if (awake_ && wake_) wake_(nullptr);
}

void Exchange::wake(WakeBatch* batch) {
    const std::lock_guard lock(mutex_);
    if (awake_) return;
    awake_ = true;
    if (wake_) wake_(batch);
}

void Exchange::taken() {
    const std::lock_guard lock(mutex_);
    awake_ = false;
}

void SimpleExchange::respond(Response response) {
    {
        const std::lock_guard lock(mutex_);
        response_ = std::move(response);
    }
    wake();
}

Output SimpleExchange::take(bool /*ticked*/) {
    taken();
    const std::lock_guard lock(mutex_);
    if (!response_) return {};
    return {.head = std::exchange(response_, std::nullopt), .ended = true};
}

}  // namespace tandem::server
