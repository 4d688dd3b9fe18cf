#include "server/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "cpu/backend.h"
#include "server/app.h"
#include "server/wake_queue.h"

namespace tandem::server {
namespace {

using testing::HasSubstr;
using Milliseconds = std::chrono::milliseconds;

constexpr const char* kEndless = R"({"prompt": "a fox", "max_tokens": 4000, "ignore_eos": true, "stream": true})";

std::string post(const std::string& path, const std::string& body) {
    return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}", path, body.size(), body);
}

// One connection.
class Client {
  public:
    explicit Client(int port, int buffer_bytes = 0) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
        if (buffer_bytes > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof(buffer_bytes));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<uint16_t>(port));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    }
    ~Client() { ::close(fd_); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    void send(const std::string& bytes) const {
        ASSERT_TRUE(connected_);
        ASSERT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
    }

    // What comes until `text` is in it, or the end.
    std::string read_until(std::string_view text) const {
        std::string all;
        char bytes[4096];
        while (all.find(text) == std::string::npos) {
            const ssize_t count = ::recv(fd_, bytes, sizeof(bytes), 0);
            if (count <= 0) break;
            all.append(bytes, static_cast<size_t>(count));
        }
        return all;
    }

  private:
    int fd_;
    bool connected_ = false;
};

// Of all connections that are accepted from now on: they take over what the socket has that listens.
void shrink_send_buffers(int bytes) {
    constexpr int kMostFiles = 256;
    for (int fd = 0; fd < kMostFiles; ++fd) {
        int listens = 0;
        socklen_t size = sizeof(listens);
        const bool is_socket = ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0;
        if (is_socket && listens != 0) ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    }
}

// A server of the embedded model, which writes one answer at a time.
class Running {
  public:
    explicit Running(AppOptions app = {}, HttpOptions http = {}, std::shared_future<void> may_load = {}) {
        PoolOptions options;
        options.engine = {.context = 4096, .sequences = 1};
        options.open_device = [this, may_load](uint64_t) {
            loads_ = true;
            if (may_load.valid()) may_load.wait();
            return cpu::make_backend({.threads = 1});
        };
        pool_ = *ModelPool::open(std::move(options));
        app_ = std::make_unique<App>(*pool_, std::move(app));
        http.port = 0;
        http.threads = 1;
        http.drain_time = Milliseconds(0);
        server_ = *HttpServer::open(*app_, std::move(http));
        pool_->start();
        thread_ = std::thread([this] { server_->run(); });
    }
    ~Running() {
        stop();
        pool_->close();  // before the app that its engines report to
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

    void stop() {
        if (!thread_.joinable()) return;
        server_->stop();
        thread_.join();
        server_.reset();
    }

    int port() const { return server_->port(); }
    bool loads() const { return loads_; }
    App& app() { return *app_; }
    ModelPool& pool() { return *pool_; }
    std::string get(const std::string& path) const {
        const Client client(port());
        client.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        return client.read_until("no such text");
    }

  private:
    std::atomic<bool> loads_ = false;  // or has loaded
    std::unique_ptr<ModelPool> pool_;
    std::unique_ptr<App> app_;
    std::unique_ptr<HttpServer> server_;
    std::thread thread_;
};

TEST(WakeQueue, WakesOnceForAllOfABatch) {
    int wakes = 0;
    std::vector<WakeQueue::Task> following;
    const auto queue = std::make_shared<WakeQueue>(WakeQueue::Hooks{
        .wake = [&] { ++wakes; },
        .follow = [&](WakeQueue::Task task) { following.push_back(std::move(task)); },
    });
    int done = 0;
    const auto task = [&] { ++done; };
    queue->add(task);
    EXPECT_EQ(wakes, 1) << "at once, without a batch";
    queue->run();
    EXPECT_EQ(done, 1);
    EXPECT_EQ(following.size(), 1U);
    WakeBatch batch;
    for (int i = 0; i < 3; ++i) queue->add(task, &batch);
    EXPECT_EQ(wakes, 1);
    batch.flush(std::chrono::microseconds(1));
    batch.flush(std::chrono::hours(1));  // has nothing to wait for
    EXPECT_EQ(wakes, 2);
    queue->run();
    following.back()();
    queue->add(task, &batch);
    EXPECT_EQ(wakes, 2);
    EXPECT_EQ(done, 4);
    queue->close();
    queue->add(task);
    EXPECT_EQ(wakes, 2) << "nobody is there any more";
}

TEST(HttpServer, StreamsThatWaitShowThatTheyAreAlive) {
    AppOptions options;
    options.heartbeat = Milliseconds(5);
    Running server(std::move(options));
    Client first(server.port());
    first.send(post("/v1/completions", kEndless));
    first.read_until("data: ");
    Client second(server.port());
    second.send(post("/v1/completions", R"({"prompt": "a cat", "max_tokens": 2, "stream": true})"));
    EXPECT_THAT(second.read_until(":\n\n"), HasSubstr("Content-Type: text/event-stream"));
    Client third(server.port());
    third.send(post("/v1/messages", R"({"model": "tales", "messages": [{"role": "user", "content": "a cat"}],
                                        "max_tokens": 2, "stream": true})"));
    EXPECT_THAT(third.read_until("event: ping"), HasSubstr("event: message_start"));
}

TEST(HttpServer, WhoDoesNotReadIsCutOffAndDisturbsNobody) {
    HttpOptions options;
    options.write_time = Milliseconds(50);
    Running server({}, std::move(options));
    shrink_send_buffers(4096);
    Client slow(server.port(), 4096);
    slow.send(post("/v1/completions", R"({"prompt": "a fox", "max_tokens": 4000, "ignore_eos": true, "stream": true,
                                          "logprobs": 20})"));
    slow.read_until("data: ");
    // The engine writes one answer at a time: this one comes when that of the slow reader was given up.
    Client other(server.port());
    other.send(post("/v1/completions", R"({"prompt": "a cat", "max_tokens": 2, "stream": true})"));
    EXPECT_THAT(other.read_until("[DONE]"), HasSubstr("[DONE]"));
    EXPECT_THAT(slow.read_until("[DONE]"), Not(HasSubstr("[DONE]")));
}

TEST(HttpServer, HealthTellsHowFarLoadingIs) {
    std::promise<void> may_load;
    Running server({}, {}, may_load.get_future().share());
    const std::string loading = server.get("/health");
    EXPECT_THAT(loading, HasSubstr("HTTP/1.1 503"));
    EXPECT_THAT(loading, HasSubstr("Retry-After: 1"));
    EXPECT_THAT(loading, HasSubstr(R"("status":"loading","progress":0)"));
    EXPECT_THAT(server.get("/v1/models"), HasSubstr(R"("state":"loading")"));
    Client early(server.port());  // waits for the model
    early.send(post("/v1/completions", R"({"prompt": "a cat", "max_tokens": 2, "stream": true})"));
    may_load.set_value();
    EXPECT_THAT(early.read_until("[DONE]"), HasSubstr("[DONE]"));
    EXPECT_THAT(server.get("/health"), HasSubstr("HTTP/1.1 200"));
}

// Balancers look once a second: until they have seen it they send what must not be lost.
TEST(HttpServer, TakesWorkAfterItHasAnnouncedItsEnd) {
    Running server;
    const auto ask = [&server] {
        const Client client(server.port());
        std::string request = post("/v1/completions", R"({"prompt": "a cat", "max_tokens": 2})");
        request.insert(request.find("Content-Length"), "Connection: close\r\n");
        client.send(request);
        return client.read_until("no such text");
    };
    EXPECT_THAT(ask(), HasSubstr("HTTP/1.1 200"));
    server.app().announce_end();
    EXPECT_THAT(server.get("/health"), HasSubstr("HTTP/1.1 503"));
    EXPECT_THAT(server.get("/health"), HasSubstr(R"("status":"draining")"));
    EXPECT_THAT(ask(), HasSubstr("HTTP/1.1 200"));
    server.app().drain();
    EXPECT_THAT(ask(), HasSubstr("HTTP/1.1 503"));
}

TEST(HttpServer, EndsWithoutWaitingForAModel) {
    std::promise<void> may_load;
    Running server({}, {}, may_load.get_future().share());
    Client early(server.port());
    early.send(post("/v1/completions", R"({"prompt": "a cat"})"));
    while (server.app().under_way() == 0 || !server.loads()) std::this_thread::yield();
    server.app().drain();
    EXPECT_THAT(early.read_until("stopping"), HasSubstr("HTTP/1.1 503"));
    server.stop();
    EXPECT_FALSE(server.pool().loader_ends(Milliseconds(0))) << "it has ended before the loader";
    may_load.set_value();
    EXPECT_TRUE(server.pool().loader_ends(std::chrono::minutes(1)));
}

}  // namespace
}  // namespace tandem::server
