#include "server/http_transport.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

namespace tandem::server {

namespace {

namespace beast = boost::beast;
using boost::system::error_code;

constexpr size_t kPieceBytes = 16 << 10;  // written within one time limit

template <typename Stream>
asio::awaitable<size_t> read_from(Stream& stream, char* data, size_t size, Transport::Time within) {
    if (within == Transport::kNoLimit) {
        beast::get_lowest_layer(stream).expires_never();
    } else {
        beast::get_lowest_layer(stream).expires_after(within);
    }
    error_code error;
    const size_t count =
        co_await stream.async_read_some(asio::buffer(data, size), asio::redirect_error(asio::use_awaitable, error));
    co_return error ? size_t{0} : count;
}

template <typename Stream>
asio::awaitable<bool> write_to(Stream& stream, std::string_view bytes, Transport::Time within) {
    while (!bytes.empty()) {
        beast::get_lowest_layer(stream).expires_after(within);
        error_code error;
        const size_t piece = std::min(bytes.size(), kPieceBytes);
        const size_t count = co_await stream.async_write_some(asio::buffer(bytes.data(), piece),
                                                              asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return false;
        bytes.remove_prefix(count);
    }
    beast::get_lowest_layer(stream).expires_never();
    co_return true;
}

void shut(asio::ip::tcp::socket& socket) {
    error_code ignored;
    socket.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

class PlainTransport final : public Transport {
  public:
    explicit PlainTransport(asio::ip::tcp::socket socket) : stream_(std::move(socket)) {
        error_code ignored;
        stream_.socket().non_blocking(true, ignored);
    }

    asio::awaitable<bool> begin(Time /*within*/) override { co_return true; }
    asio::awaitable<size_t> read(char* data, size_t size, Time within) override {
        return read_from(stream_, data, size, within);
    }
    asio::awaitable<size_t> read_raw(char* data, size_t size, Time within) override {
        return read_from(stream_, data, size, within);
    }
    asio::awaitable<bool> write(std::string_view bytes, Time within) override {
        // Most often there is room, and no need for a timer and a turn of the loop.
        error_code error;
        const size_t count = stream_.socket().write_some(asio::buffer(bytes.data(), bytes.size()), error);
        if (error && error != asio::error::would_block) co_return false;
        if (!error) bytes.remove_prefix(count);
        if (bytes.empty()) co_return true;
        const bool written = co_await write_to(stream_, bytes, within);
        co_return written;
    }
    asio::awaitable<void> end() override {
        shut(stream_.socket());
        co_return;
    }
    asio::ip::tcp::socket& socket() override { return stream_.socket(); }

  private:
    beast::tcp_stream stream_;
};

class TlsTransport final : public Transport {
  public:
    TlsTransport(asio::ip::tcp::socket socket, asio::ssl::context& context) : stream_(std::move(socket), context) {}

    asio::awaitable<bool> begin(Time within) override {
        stream_.next_layer().expires_after(within);
        error_code error;
        co_await stream_.async_handshake(asio::ssl::stream_base::server,
                                         asio::redirect_error(asio::use_awaitable, error));
        co_return !error;
    }
    asio::awaitable<size_t> read(char* data, size_t size, Time within) override {
        return read_from(stream_, data, size, within);
    }
    asio::awaitable<size_t> read_raw(char* data, size_t size, Time within) override {
        return read_from(stream_.next_layer(), data, size, within);
    }
    asio::awaitable<bool> write(std::string_view bytes, Time within) override {
        return write_to(stream_, bytes, within);
    }
    asio::awaitable<void> end() override {
        constexpr Time kGoodbye{5000};
        stream_.next_layer().expires_after(kGoodbye);
        error_code ignored;
        co_await stream_.async_shutdown(asio::redirect_error(asio::use_awaitable, ignored));
        shut(stream_.next_layer().socket());
    }
    asio::ip::tcp::socket& socket() override { return stream_.next_layer().socket(); }

  private:
    beast::ssl_stream<beast::tcp_stream> stream_;
};

}  // namespace

std::unique_ptr<Transport> make_plain_transport(asio::ip::tcp::socket socket) {
    return std::make_unique<PlainTransport>(std::move(socket));
}

std::unique_ptr<Transport> make_tls_transport(asio::ip::tcp::socket socket, asio::ssl::context& context) {
    return std::make_unique<TlsTransport>(std::move(socket), context);
}

}  // namespace tandem::server
