#include "server/http_server.h"

#include "server/http_connection.h"

#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <thread>
#include <vector>

#include "base/log.h"

namespace tandem::server {

namespace {

using asio::ip::tcp;
using boost::system::error_code;
using Work = asio::executor_work_guard<asio::io_context::executor_type>;

constexpr std::chrono::milliseconds kLookWhileDraining{50};

// As many open files as the system lets us have: each connection is one.
void raise_file_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

// As sched_setattr(2) has it: the C library has no name for it yet, and the kernel's header gets in its way.
struct SchedulingAttributes {
    uint32_t size = 0;
    uint32_t policy = 0;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime_ns = 0;
    uint64_t deadline_ns = 0;
    uint64_t period_ns = 0;
};

// A thread that is woken to send a token would wait until one that computes has used up its slice, some milliseconds.
// With a shorter slice of its own it comes first (since Linux 6.12; it takes no privilege). Elsewhere nothing changes.
void ask_for_short_slices() {
    constexpr uint64_t kSliceNs = 100'000;  // the shortest there is
    SchedulingAttributes attributes;
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
    if (attributes.policy != SCHED_OTHER) return;
    attributes.runtime_ns = kSliceNs;
    if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) log::debug("the scheduler gives no shorter slices");
}

void set_options(tcp::socket& socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    const unsigned int unacknowledged_ms = 60'000;  // a peer that has vanished
    setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof(unacknowledged_ms));
}

Result<std::unique_ptr<asio::ssl::context>> open_tls(const HttpOptions& options) {
    auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
    error_code error;
    context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                             asio::ssl::context::no_tlsv1_1 | asio::ssl::context::no_compression,
                         error);
    context->use_certificate_chain_file(options.certificate.string(), error);
    if (error) return fail("{}: no certificate that can be used: {}", options.certificate.string(), error.message());
    context->use_private_key_file(options.private_key.string(), asio::ssl::context::pem, error);
    if (error) return fail("{}: no private key that can be used: {}", options.private_key.string(), error.message());
    if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
        return fail("{}: this is not the private key of {}", options.private_key.string(),
                    options.certificate.string());
    }
    return context;
}

}  // namespace

struct HttpServer::Impl {
    Impl(App& app_, HttpOptions options_)
        : options(std::move(options_)), shared{.app = app_, .options = options}, acceptor(main), signals(main) {}

    Status listen();
    asio::awaitable<void> accept();
    asio::awaitable<void> await_signal();
    asio::awaitable<void> drain();
    asio::awaitable<void> pause(std::chrono::milliseconds time);
    void stop_all();

    HttpOptions options;
    HttpShared shared;
    std::unique_ptr<asio::ssl::context> tls;
    std::vector<std::unique_ptr<asio::io_context>> contexts;  // with the connections
    std::vector<std::shared_ptr<WakeQueue>> wakes;            // of each of them
    asio::io_context main{1};  // accepts, and hands the connections to the others; it has sockets of theirs
    tcp::acceptor acceptor;
    asio::signal_set signals;
    int port = 0;
};

Status HttpServer::Impl::listen() {
    error_code error;
    tcp::resolver resolver(main);
    const auto found = resolver.resolve(options.host, std::to_string(options.port),
                                        tcp::resolver::passive | tcp::resolver::numeric_service, error);
    if (error || found.empty()) return fail("--host {}: no such address: {}", options.host, error.message());
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
    if (error == asio::error::address_in_use) {
        return fail("port {} of {} is taken by another program: choose another with --port", options.port,
                    options.host);
    }
    if (error) return fail("cannot listen on {}, port {}: {}", options.host, options.port, error.message());
    port = acceptor.local_endpoint().port();
    return Ok{};
}

asio::awaitable<void> HttpServer::Impl::pause(std::chrono::milliseconds time) {
    asio::steady_timer timer(main, time);
    error_code ignored;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

asio::awaitable<void> HttpServer::Impl::accept() {
    size_t next = 0;
    for (;;) {
        const size_t index = next++ % contexts.size();
        asio::io_context& context = *contexts[index];
        error_code error;
        tcp::socket socket = co_await acceptor.async_accept(context, asio::redirect_error(asio::use_awaitable, error));
        if (error == asio::error::operation_aborted) co_return;
        if (error) {  // no more files, most likely: some will be closed
            constexpr std::chrono::milliseconds kBreath{100};
            co_await pause(kBreath);
            continue;
        }
        if (shared.connections >= options.connections) continue;  // closes it
        set_options(socket);
        auto transport = tls ? make_tls_transport(std::move(socket), *tls) : make_plain_transport(std::move(socket));
        const auto connection = std::make_shared<Connection>(shared, std::move(transport), wakes[index]);
        asio::co_spawn(
            context, [connection] { return connection->serve(); }, asio::detached);
    }
}

asio::awaitable<void> HttpServer::Impl::await_signal() {
    error_code error;
    co_await signals.async_wait(asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    asio::co_spawn(
        main, [this] { return drain(); }, asio::detached);
    co_await signals.async_wait(asio::redirect_error(asio::use_awaitable, error));
    if (!error) stop_all();
}

asio::awaitable<void> HttpServer::Impl::drain() {
    if (shared.draining.exchange(true)) co_return;
    shared.app.drain();
    if (shared.app.under_way() > 0) {
        log::info("stopping when the requests under way have ended ({}); once more, and it ends at once",
                  shared.app.under_way());
    }
    const auto until = std::chrono::steady_clock::now() + options.drain_time;
    while (shared.app.under_way() > 0 && std::chrono::steady_clock::now() < until) co_await pause(kLookWhileDraining);
    stop_all();
}

void HttpServer::Impl::stop_all() {
    error_code ignored;
    acceptor.close(ignored);
    signals.cancel(ignored);
    for (const auto& context : contexts) context->stop();
    main.stop();
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
    for (const auto& queue : impl_->wakes) queue->close();
}

Result<std::unique_ptr<HttpServer>> HttpServer::open(App& app, HttpOptions options) {
    raise_file_limit();
    auto impl = std::make_unique<Impl>(app, std::move(options));
    if (!impl->options.certificate.empty()) impl->tls = TRY(open_tls(impl->options));
    TRY(impl->listen());
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int HttpServer::port() const {
    return impl_->port;
}

void HttpServer::run() {
    Impl& impl = *impl_;
    for (int i = 0; i < impl.options.threads; ++i) {
        impl.contexts.push_back(std::make_unique<asio::io_context>(1));
        asio::io_context* const context = impl.contexts.back().get();
        impl.wakes.push_back(
            std::make_shared<WakeQueue>([context](WakeQueue::Task task) { asio::post(*context, std::move(task)); }));
    }
    error_code ignored;
    impl.signals.add(SIGTERM, ignored);
    impl.signals.add(SIGINT, ignored);
    asio::co_spawn(
        impl.main, [&impl] { return impl.accept(); }, asio::detached);
    asio::co_spawn(
        impl.main, [&impl] { return impl.await_signal(); }, asio::detached);
    std::vector<Work> work;
    std::vector<std::thread> threads;
    work.reserve(impl.contexts.size());
    threads.reserve(impl.contexts.size());
    for (const auto& context : impl.contexts) {
        work.push_back(asio::make_work_guard(*context));
        threads.emplace_back([raw = context.get()] {
            ask_for_short_slices();
            raw->run();
        });
    }
    impl.main.run();
    for (std::thread& thread : threads) thread.join();
}

void HttpServer::stop() {
    Impl& impl = *impl_;
    asio::post(impl.main, [&impl] {
        asio::co_spawn(
            impl.main, [&impl] { return impl.drain(); }, asio::detached);
    });
}

}  // namespace tandem::server
