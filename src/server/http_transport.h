// Transport: the bytes of one connection, plain or through TLS. Only http_*.cpp include this.
#pragma once

#include <utility>  // Boost 1.74 needs it and does not say so

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <memory>
#include <string_view>

namespace tandem::server {

namespace asio = boost::asio;

// Nothing throws; what goes wrong is an error_code.
class Transport {
  public:
    using Time = std::chrono::milliseconds;

    Transport() = default;
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;
    virtual ~Transport() = default;

    // What must come before the first byte; false: give up.
    virtual asio::awaitable<bool> begin(Time within) = 0;
    // Some bytes; 0: the end, an error, or the time is over. One that waits without a limit is ended by cancelling the
    // socket, and loses nothing.
    static constexpr Time kNoLimit = Time::max();
    virtual asio::awaitable<size_t> read(char* data, size_t size, Time within) = 0;
    // The same of the bytes as they come from the socket, after end().
    virtual asio::awaitable<size_t> read_raw(char* data, size_t size, Time within) = 0;
    // All of it, each piece within the time.
    virtual asio::awaitable<bool> write(std::string_view bytes, Time within) = 0;
    virtual asio::awaitable<void> end() = 0;
    virtual asio::ip::tcp::socket& socket() = 0;
};

std::unique_ptr<Transport> make_plain_transport(asio::ip::tcp::socket socket);
std::unique_ptr<Transport> make_tls_transport(asio::ip::tcp::socket socket, asio::ssl::context& context);

}  // namespace tandem::server
