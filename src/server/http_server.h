// HttpServer: the App behind HTTP/1.1, with or without TLS; a few threads hold thousands of open streams.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"

namespace tandem::server {

class App;

struct HttpOptions {
    std::string host = "127.0.0.1";
    int port = 8080;                         // 0: any that is free
    std::filesystem::path certificate = {};  // PEM, with the chain; empty: no TLS
    std::filesystem::path private_key = {};
    int threads = 2;
    int connections = 10'000;                       // open at once
    size_t header_bytes = 64 << 10;                 // of a request
    size_t body_bytes = 4 << 20;                    //
    size_t all_body_bytes = 1 << 30;                // of all requests that are being read or wait to be parsed
    std::chrono::milliseconds header_time{30'000};  // from the first byte of a request
    std::chrono::milliseconds body_time{300'000};
    std::chrono::milliseconds idle_time{75'000};   // between two requests
    std::chrono::milliseconds write_time{60'000};  // that a client may take to read some of an answer
    std::chrono::milliseconds notice_time{0};      // after SIGTERM that new work is still taken while /health says no
    std::chrono::milliseconds drain_time{30'000};  // that answers under way get to end after SIGTERM
};

class HttpServer {
  public:
    // Listens from now on. `app` must outlive it.
    static Result<std::unique_ptr<HttpServer>> open(App& app, HttpOptions options);
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;
    ~HttpServer();  // cancels what is still under way

    int port() const;
    // Serves until SIGTERM or SIGINT, or stop(): then takes no new work and ends when that under way has. A second
    // signal ends it at once.
    void run();
    void stop();  // from any thread

  private:
    struct Impl;
    struct Lane;
    explicit HttpServer(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::server
