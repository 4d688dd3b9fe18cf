// Post: what a rank sends to others and gets from them; a thread of its own carries it and sees when a rank falls
// silent.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"
#include "ranks/transport.h"

namespace tandem::ranks {

// What a message is about; those of one kind from one rank are received in the order in which they were sent.
enum class Channel : uint8_t { beat, hello, command, values, masks, draws, done };

struct PostOptions {
    std::chrono::milliseconds beat{500};
    std::chrono::milliseconds silence{10'000};  // after which a rank is lost
    int lost_exit_code = 1;                     // of the job, when it is
    // Called once, from the thread of the Post, when a rank was lost.
    std::function<void(const std::string& why)> on_failure = {};
};

class Post {
  public:
    using Bytes = std::vector<std::byte>;

    static constexpr size_t kHeaderBytes = 8;  // the channel; what follows is aligned for numbers
    // What was received.
    struct Message {
        Bytes whole;
        std::span<const std::byte> body() const { return std::span(whole).subspan(kHeaderBytes); }
    };

    static Result<std::unique_ptr<Post>> open(std::unique_ptr<Transport> transport, PostOptions options);
    Post(const Post&) = delete;
    Post& operator=(const Post&) = delete;
    // Sends what is left and ends together with all ranks; after a failure it ends the whole job.
    ~Post();

    int rank() const { return rank_; }
    int size() const { return size_; }

    // From any thread.
    void send(int to, Channel channel, std::span<const std::byte> bytes);
    // Waits for it. An error once a rank was lost.
    Result<Message> receive(int from, Channel channel);
    // Nothing is received any more.
    void fail(const std::string& why);
    std::string failure() const;  // empty: none

    // What a rank is called in messages, and its host is told to all: "rank 1 (b)".
    void name_host(int rank, std::string host);
    std::string name(int rank) const;

    // Half of the time that a small message to a neighbour and back took last, behind all that was sent before it.
    double hop_seconds(int rank) const;
    uint64_t sent_bytes(int rank) const;

  private:
    using Clock = std::chrono::steady_clock;
    struct Letter {
        int to = 0;
        Bytes bytes;
        uint64_t ticket = 0;
    };
    struct Peer {
        std::string host;
        Clock::time_point heard;
        double hop_s = 0;
        uint64_t sent_bytes = 0;
    };

    Post(std::unique_ptr<Transport> transport, PostOptions options)
        : transport_(std::move(transport)), options_(std::move(options)) {}

    void run();
    bool is_neighbour(int rank) const;
    Result<bool> carry();
    Result<bool> send_waiting();
    Result<bool> take_incoming();
    void answer_beat(int from, std::span<const std::byte> bytes);
    Status beat(Clock::time_point now);
    void rest();

    std::unique_ptr<Transport> transport_;
    PostOptions options_;
    int rank_ = 0;
    int size_ = 0;

    std::deque<Letter> under_way_;  // of the thread, as the next ones
    Clock::time_point last_beat_;
    Clock::time_point last_look_;
    Clock::time_point busy_;  // when something was carried last

    mutable std::mutex mutex_;  // of what follows
    std::condition_variable arrived_;
    std::condition_variable to_send_;
    std::deque<Letter> outgoing_;
    std::map<std::pair<int, Channel>, std::deque<Bytes>> inbox_;
    std::vector<Peer> peers_;
    std::string failure_;
    bool opened_ = false;
    bool closing_ = false;
    std::thread thread_;
};

}  // namespace tandem::ranks
