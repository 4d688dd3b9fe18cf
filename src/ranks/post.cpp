#include "ranks/post.h"

#include <algorithm>
#include <cstring>

namespace tandem::ranks {

namespace {

// MPI has no file to wait for. Looking all the time takes a core, looking every 50 us an eighth of one, every ms 2 %.
constexpr std::chrono::microseconds kSpin{100};
constexpr std::chrono::microseconds kShortRest{20};
constexpr std::chrono::microseconds kRestAtWork{200};  // while messages came within the last kAtWork
constexpr std::chrono::microseconds kLongRest{1000};
constexpr std::chrono::milliseconds kAtWork{500};
constexpr std::chrono::microseconds kSleep{
    5000};  // when nothing came for the last kAwake: the first answer is as much later
constexpr std::chrono::milliseconds kAwake{3000};

// A thread that was away for so long, as when the whole job is stopped, knows nothing of the silence of others.
constexpr std::chrono::milliseconds kAway{2000};

bool is_beat(std::span<const std::byte> letter) {
    return static_cast<Channel>(letter[0]) == Channel::beat;
}

struct Beat {
    int64_t sent_ns = 0;
    uint64_t is_answer = 0;
};

std::vector<std::byte> letter(Channel channel, std::span<const std::byte> bytes) {
    std::vector<std::byte> all(Post::kHeaderBytes + bytes.size());
    all[0] = static_cast<std::byte>(channel);
    std::copy(bytes.begin(), bytes.end(), all.begin() + Post::kHeaderBytes);
    return all;
}

int64_t nanoseconds(std::chrono::steady_clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

Result<std::unique_ptr<Post>> Post::open(std::unique_ptr<Transport> transport, PostOptions options) {
    std::unique_ptr<Post> post(new Post(std::move(transport), std::move(options)));
    post->thread_ = std::thread([&post = *post] { post.run(); });
    std::unique_lock lock(post->mutex_);
    post->arrived_.wait(lock, [&] { return post->opened_ || !post->failure_.empty(); });
    if (!post->opened_) return Error{post->failure_};
    return post;
}

Post::~Post() {
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
        to_send_.notify_all();
    }
    thread_.join();
}

void Post::send(int to, Channel channel, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    outgoing_.push_back({.to = to, .bytes = letter(channel, bytes)});
    peers_[static_cast<size_t>(to)].sent_bytes += bytes.size() + kHeaderBytes;
    to_send_.notify_all();
}

Result<Post::Message> Post::receive(int from, Channel channel) {
    std::unique_lock lock(mutex_);
    std::deque<Bytes>& box = inbox_[{from, channel}];
    arrived_.wait(lock, [&] { return !failure_.empty() || !box.empty(); });
    if (!failure_.empty()) return Error{failure_};
    Message message{std::move(box.front())};
    box.pop_front();
    return message;
}

void Post::fail(const std::string& why) {
    {
        const std::lock_guard lock(mutex_);
        if (!failure_.empty()) return;
        failure_ = why;
        arrived_.notify_all();
    }
    if (options_.on_failure) options_.on_failure(why);
}

std::string Post::failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
}

void Post::name_host(int rank, std::string host) {
    const std::lock_guard lock(mutex_);
    peers_[static_cast<size_t>(rank)].host = std::move(host);
}

std::string Post::name(int rank) const {
    const std::lock_guard lock(mutex_);
    const std::string& host = peers_[static_cast<size_t>(rank)].host;
    return host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} ({})", rank, host);
}

double Post::hop_seconds(int rank) const {
    const std::lock_guard lock(mutex_);
    return peers_[static_cast<size_t>(rank)].hop_s;
}

uint64_t Post::sent_bytes(int rank) const {
    const std::lock_guard lock(mutex_);
    return peers_[static_cast<size_t>(rank)].sent_bytes;
}

// ---- The thread

// Rank 0 hears of every rank, and every rank of those it hands its values to.
bool Post::is_neighbour(int rank) const {
    return rank != rank_ && (rank == 0 || rank_ == 0 || std::abs(rank - rank_) == 1);
}

void Post::run() {
    const Status opened = transport_->open();
    if (!opened) return fail(opened.error().message);
    {
        const std::lock_guard lock(mutex_);
        rank_ = transport_->rank();
        size_ = transport_->size();
        last_beat_ = last_look_ = busy_ = Clock::now();
        peers_.resize(static_cast<size_t>(size_));
        for (Peer& peer : peers_) peer.heard = last_look_;
        opened_ = true;
        arrived_.notify_all();
    }
    for (;;) {
        const Result<bool> carried = carry();
        if (!carried) fail(carried.error().message);
        if (!failure().empty()) break;
        if (*carried) {
            busy_ = Clock::now();
            continue;
        }
        const std::unique_lock lock(mutex_);
        if (closing_ && outgoing_.empty() && under_way_.empty()) break;
    }
    std::unique_lock lock(mutex_);
    to_send_.wait(lock, [&] { return closing_; });  // whoever uses this says first what has happened
    const bool failed = !failure_.empty();
    lock.unlock();
    if (failed) {
        transport_->abort(options_.lost_exit_code);
    } else {
        transport_->close();
    }
}

// Whether there was anything to carry but signs of life.
Result<bool> Post::carry() {
    const bool sent = TRY(send_waiting());
    const bool came = TRY(take_incoming());
    const Clock::time_point now = Clock::now();
    TRY(beat(now));
    if (!sent && !came) rest();
    return sent || came;
}

Result<bool> Post::send_waiting() {
    std::deque<Letter> fresh;
    {
        const std::lock_guard lock(mutex_);
        fresh.swap(outgoing_);
    }
    bool any = false;
    for (Letter& each : fresh) {
        any |= !is_beat(each.bytes);
        under_way_.push_back(std::move(each));
        under_way_.back().ticket = TRY(transport_->send(under_way_.back().to, under_way_.back().bytes));
    }
    for (auto it = under_way_.begin(); it != under_way_.end();) {
        const bool sent = TRY(transport_->sent(it->ticket));
        any |= sent && !is_beat(it->bytes);
        it = sent ? under_way_.erase(it) : std::next(it);
    }
    return any;
}

Result<bool> Post::take_incoming() {
    bool any = false;
    while (std::optional<Transport::Incoming> message = TRY(transport_->receive())) {
        if (message->bytes.size() < kHeaderBytes) return tandem::fail("a message of {} bytes", message->bytes.size());
        const auto channel = static_cast<Channel>(message->bytes[0]);
        if (channel == Channel::beat) {
            answer_beat(message->from, std::span(message->bytes).subspan(kHeaderBytes));
            continue;
        }
        any = true;
        const std::lock_guard lock(mutex_);
        peers_[static_cast<size_t>(message->from)].heard = Clock::now();
        inbox_[{message->from, channel}].push_back(std::move(message->bytes));
        arrived_.notify_all();
    }
    return any;
}

void Post::answer_beat(int from, std::span<const std::byte> bytes) {
    Beat beat;
    if (bytes.size() != sizeof(beat)) return;
    std::memcpy(&beat, bytes.data(), sizeof(beat));
    const Clock::time_point now = Clock::now();
    const std::lock_guard lock(mutex_);
    Peer& peer = peers_[static_cast<size_t>(from)];
    peer.heard = now;
    if (beat.is_answer != 0) {
        peer.hop_s = static_cast<double>(nanoseconds(now) - beat.sent_ns) * 0.5e-9;
        return;
    }
    beat.is_answer = 1;
    outgoing_.push_back({.to = from, .bytes = letter(Channel::beat, std::as_bytes(std::span(&beat, 1)))});
}

Status Post::beat(Clock::time_point now) {
    const bool was_away = now - last_look_ > kAway;
    last_look_ = now;
    const bool due = now - last_beat_ >= options_.beat;
    if (!due && !was_away) return Ok{};
    last_beat_ = now;
    const Beat question{.sent_ns = nanoseconds(now)};
    int silent = -1;
    {
        const std::lock_guard lock(mutex_);
        for (int rank = 0; rank < size_; ++rank) {
            if (!is_neighbour(rank)) continue;
            Peer& peer = peers_[static_cast<size_t>(rank)];
            if (was_away) peer.heard = now;
            if (now - peer.heard > options_.silence) silent = rank;
            outgoing_.push_back({.to = rank, .bytes = letter(Channel::beat, std::as_bytes(std::span(&question, 1)))});
        }
    }
    if (silent < 0) return Ok{};
    return tandem::fail("{} has been silent for {} s: it has died, hangs, or the network is down", name(silent),
                        std::chrono::duration_cast<std::chrono::seconds>(options_.silence).count());
}

void Post::rest() {
    const auto quiet = Clock::now() - busy_;
    if (quiet < kSpin) return;
    const std::chrono::microseconds most = quiet < kAtWork ? kRestAtWork : quiet < kAwake ? kLongRest : kSleep;
    const auto grown = std::chrono::duration_cast<std::chrono::microseconds>(quiet / 8);
    std::unique_lock lock(mutex_);
    if (!outgoing_.empty() || (closing_ && under_way_.empty())) return;
    to_send_.wait_for(lock, std::clamp(grown, kShortRest, most));
}

}  // namespace tandem::ranks
