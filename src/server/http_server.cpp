#include "server/http_server.h"

#include "server/http_connection.h"

#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
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

// Every second core for one of two threads, and so on. The scheduler would wake them on the same core, one after the
// other, although a model that waits for them has left more than one.
void keep_to_share_of_cores(size_t thread, size_t threads) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
    if (static_cast<size_t>(CPU_COUNT(&allowed)) < threads) return;
    cpu_set_t share;
    CPU_ZERO(&share);
    size_t seen = 0;
    for (size_t core = 0; core < CPU_SETSIZE; ++core) {
        if (CPU_ISSET(core, &allowed) && seen++ % threads == thread) CPU_SET(core, &share);
    }
    if (sched_setaffinity(0, sizeof(share), &share) != 0) log::debug("the scheduler lets no thread choose its cores");
}

void set_options(tcp::socket& socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    const unsigned int unacknowledged_ms = 60'000;  // a peer that has vanished
    setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof(unacknowledged_ms));
}

// Wakes the thread of a context. asio::post() would hold a lock meanwhile, which the thread that is woken needs.
class Bell {
  public:
    explicit Bell(int file) : file_(file) {}
    ~Bell() { ::close(file_); }
    Bell(const Bell&) = delete;
    Bell& operator=(const Bell&) = delete;

    int file() const { return file_; }
    // Fails only when it was rung more often than can be counted, and then it rings.
    void ring() const { static_cast<void>(eventfd_write(file_, 1)); }

  private:
    int file_;
};

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

// A thread with its connections.
struct HttpServer::Lane {
    explicit Lane(const std::shared_ptr<Bell>& bell)
        : rings(context, bell->file()),
          wakes(std::make_shared<WakeQueue>(
              WakeQueue::Hooks{.wake = [bell] { bell->ring(); },
                               .follow = [this](WakeQueue::Task task) { asio::post(context, std::move(task)); }})) {}
    ~Lane() {
        wakes->close();
        rings.release();  // it is the bell's, which others may still ring
    }
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    static Result<std::unique_ptr<Lane>> open();
    asio::awaitable<void> answer_bell();
    void run();

    asio::io_context context{1};
    asio::posix::stream_descriptor rings;
    std::shared_ptr<WakeQueue> wakes;
};

Result<std::unique_ptr<HttpServer::Lane>> HttpServer::Lane::open() {
    const int file = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (file < 0) return fail("no more files can be opened: {}", std::strerror(errno));
    return std::make_unique<Lane>(std::make_shared<Bell>(file));
}

asio::awaitable<void> HttpServer::Lane::answer_bell() {
    for (;;) {
        uint64_t times = 0;
        error_code error;
        co_await rings.async_read_some(asio::buffer(&times, sizeof(times)),
                                       asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return;
        wakes->run();
    }
}

void HttpServer::Lane::run() {
    const Work work = asio::make_work_guard(context);
    asio::co_spawn(
        context, [this] { return answer_bell(); }, asio::detached);
    context.run();
}

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
    std::vector<std::unique_ptr<Lane>> lanes;
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
        Lane& lane = *lanes[next++ % lanes.size()];
        error_code error;
        tcp::socket socket =
            co_await acceptor.async_accept(lane.context, asio::redirect_error(asio::use_awaitable, error));
        if (error == asio::error::operation_aborted) co_return;
        if (error) {  // no more files, most likely: some will be closed
            constexpr std::chrono::milliseconds kBreath{100};
            co_await pause(kBreath);
            continue;
        }
        if (shared.connections >= options.connections) continue;  // closes it
        set_options(socket);
        auto transport = tls ? make_tls_transport(std::move(socket), *tls) : make_plain_transport(std::move(socket));
        const auto connection = std::make_shared<Connection>(shared, std::move(transport), lane.wakes);
        asio::co_spawn(
            lane.context, [connection] { return connection->serve(); }, asio::detached);
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
    shared.app.announce_end();
    co_await pause(options.notice_time);
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
    for (const auto& lane : lanes) lane->context.stop();
    main.stop();
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::open(App& app, HttpOptions options) {
    raise_file_limit();
    auto impl = std::make_unique<Impl>(app, std::move(options));
    if (!impl->options.certificate.empty()) impl->tls = TRY(open_tls(impl->options));
    impl->lanes.reserve(static_cast<size_t>(impl->options.threads));
    for (int i = 0; i < impl->options.threads; ++i) impl->lanes.push_back(TRY(Lane::open()));
    TRY(impl->listen());
    error_code ignored;  // a signal that comes before run() waits for it
    impl->signals.add(SIGTERM, ignored);
    impl->signals.add(SIGINT, ignored);
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int HttpServer::port() const {
    return impl_->port;
}

void HttpServer::run() {
    Impl& impl = *impl_;
    asio::co_spawn(
        impl.main, [&impl] { return impl.accept(); }, asio::detached);
    asio::co_spawn(
        impl.main, [&impl] { return impl.await_signal(); }, asio::detached);
    std::vector<std::thread> threads;
    threads.reserve(impl.lanes.size());
    for (size_t i = 0; i < impl.lanes.size(); ++i) {
        threads.emplace_back([&impl, i] {
            keep_to_share_of_cores(i, impl.lanes.size());
            ask_for_short_slices();
            impl.lanes[i]->run();
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
