#include "measure/traffic.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "base/check.h"
#include "base/statistics.h"
#include "measure/answer_stream.h"

namespace tandem::measure {

namespace {

using TrafficClock = std::chrono::steady_clock;

constexpr size_t kMostRefusalBytes = 4096;  // of the body of an answer that is an error

constexpr std::array<const char*, 32> kWords = {"river", "house", "green", "walks", "light", "under", "seven", "stone",
                                                "quick", "music", "table", "north", "water", "early", "train", "small",
                                                "bread", "cloud", "seeds", "paper", "sharp", "voice", "field", "amber",
                                                "close", "night", "apple", "storm", "ready", "plain", "glass", "carry"};

// Random words, so that no prompt is the beginning of another: what a cache has of one helps nobody else.
std::string make_body(const TrafficOptions& options, std::mt19937_64& random) {
    std::string text = fmt::format("{}", random());
    std::uniform_int_distribution<size_t> word(0, kWords.size() - 1);
    for (int i = 0; i < options.prompt_words; ++i) text.append(" ").append(kWords[word(random)]);
    const nlohmann::json body = {{"model", options.model},
                                 {"messages", {{{"role", "user"}, {"content", std::move(text)}}}},
                                 {"max_tokens", options.tokens},
                                 {"temperature", 0},
                                 {"stream", true},
                                 {"stream_options", {{"include_usage", true}}}};
    return body.dump();
}

// One request under way.
struct Visitor {
    hub::Http::Handle handle;
    TrafficClock::time_point came;
    AnswerStream stream;
    std::string refusal;  // the body of a status other than 200
    char reason[CURL_ERROR_SIZE] = "";

    double now_s() const { return std::chrono::duration<double>(TrafficClock::now() - came).count(); }
    long status() const {
        long code = 0;
        curl_easy_getinfo(handle.curl.get(), CURLINFO_RESPONSE_CODE, &code);
        return code;
    }
};

size_t on_piece(char* data, size_t size, size_t count, void* user) {
    auto& visitor = *static_cast<Visitor*>(user);
    const std::string_view bytes(data, size * count);
    if (visitor.status() != 200) {
        visitor.refusal.append(
            bytes.substr(0, kMostRefusalBytes - std::min(kMostRefusalBytes, visitor.refusal.size())));
        return bytes.size();
    }
    return visitor.stream.push(bytes, visitor.now_s()) ? bytes.size() : 0;
}

Visit visit_of(Visitor& visitor, CURLcode code, const TrafficOptions& options) {
    Visit visit{.total_s = visitor.now_s(), .error = {}};
    const long status = visitor.status();
    const bool reached = code == CURLE_OK || code == CURLE_WRITE_ERROR || code == CURLE_PARTIAL_FILE ||
                         (code == CURLE_RECV_ERROR && status == 200);
    if (reached && status == 200) visitor.stream.finish();
    if (reached && status != 200) {
        visit.error = fmt::format("status {}", status);
    } else if (!visitor.stream.error().empty()) {
        visit.error = visitor.stream.error();
    } else if (code != CURLE_OK) {
        const char* const said = *visitor.reason != '\0' ? visitor.reason : curl_easy_strerror(code);
        visit.error = code == CURLE_OPERATION_TIMEDOUT ? "no whole answer in time" : said;
    }
    if (!visit.error.empty()) return visit;
    const std::vector<double>& pieces = visitor.stream.pieces_s();
    visit.first_s = pieces.front();
    visit.has_usage = visitor.stream.usage().has_value();
    visit.tokens = visit.has_usage ? visitor.stream.usage()->completion_tokens : static_cast<int>(pieces.size());
    if (visit.has_usage) {
        const StreamUsage& usage = *visitor.stream.usage();
        visit.usage_is_right = usage.adds_up && usage.prompt_tokens > 0 && usage.completion_tokens > 0 &&
                               usage.completion_tokens <= options.tokens;
    }
    if (visit.tokens > 1) visit.between_s = (pieces.back() - pieces.front()) / (visit.tokens - 1);
    return visit;
}

// All requests of one measurement, on one thread.
class TrafficRun {
  public:
    explicit TrafficRun(const TrafficOptions& options)
        : options_(options),
          http_(make_http(options.endpoint, options.patience)),
          multi_(curl_multi_init(), curl_multi_cleanup),
          random_(options.seed) {
        CHECK(multi_ != nullptr, "libcurl has memory for a set of requests");
        due_ = begin_ = TrafficClock::now();
    }
    ~TrafficRun() {
        for (const auto& visitor : visitors_) curl_multi_remove_handle(multi_.get(), visitor->handle.curl.get());
    }
    TrafficRun(const TrafficRun&) = delete;
    TrafficRun& operator=(const TrafficRun&) = delete;

    void run() {
        while (std::ssize(visits_) < options_.requests) {
            start_due();
            int running = 0;
            curl_multi_perform(multi_.get(), &running);
            collect();
            if (std::ssize(visits_) < options_.requests) curl_multi_poll(multi_.get(), nullptr, 0, pause_ms(), nullptr);
        }
        seconds_ = std::chrono::duration<double>(TrafficClock::now() - begin_).count();
    }

    const std::vector<Visit>& visits() const { return visits_; }
    double seconds() const { return seconds_; }

  private:
    bool has_room() const { return std::ssize(visitors_) < options_.concurrency; }

    void start_due() {
        while (started_ < options_.requests && has_room()) {
            const TrafficClock::time_point now = TrafficClock::now();
            if (options_.rate > 0 && due_ > now) return;
            start(options_.rate > 0 ? due_ : now);
            if (options_.rate <= 0) continue;
            std::exponential_distribution<double> gap(options_.rate);
            due_ += std::chrono::duration_cast<TrafficClock::duration>(std::chrono::duration<double>(gap(random_)));
        }
    }

    void start(TrafficClock::time_point came) {
        ++started_;
        auto visitor = std::make_unique<Visitor>();
        visitor->came = came;
        visitor->handle = http_.make_handle(options_.endpoint.url + "/v1/chat/completions");
        CURL* const curl = visitor->handle.curl.get();
        auto* const headers = static_cast<curl_slist*>(visitor->handle.headers.get());
        curl_slist_append(headers, "Content-Type: application/json");  // at its end: the list begins where it did
        curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, make_body(options_, random_).c_str());
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_piece);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, visitor.get());
        curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, visitor->reason);
        curl_easy_setopt(curl, CURLOPT_TIMEOUT, static_cast<long>(options_.patience.count()));
        curl_multi_add_handle(multi_.get(), curl);
        visitors_.push_back(std::move(visitor));
    }

    void collect() {
        int left = 0;
        while (const CURLMsg* const message = curl_multi_info_read(multi_.get(), &left)) {
            if (message->msg != CURLMSG_DONE) continue;
            CURL* const curl = message->easy_handle;
            const CURLcode code = message->data.result;
            const auto found = std::ranges::find_if(
                visitors_, [&](const auto& visitor) { return visitor->handle.curl.get() == curl; });
            visits_.push_back(visit_of(**found, code, options_));
            curl_multi_remove_handle(multi_.get(), curl);
            visitors_.erase(found);
            if (options_.progress) options_.progress(static_cast<int>(visits_.size()), options_.requests);
        }
    }

    // Until something comes, or the next request is to begin.
    int pause_ms() const {
        constexpr int64_t kLongest = 100;
        if (options_.rate <= 0 || started_ == options_.requests || !has_room()) return kLongest;
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(due_ - TrafficClock::now()).count();
        return static_cast<int>(std::clamp<int64_t>(left, 0, kLongest));
    }

    const TrafficOptions& options_;
    hub::Http http_;
    std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> multi_;
    std::mt19937_64 random_;
    std::list<std::unique_ptr<Visitor>> visitors_;
    std::vector<Visit> visits_;
    int started_ = 0;
    TrafficClock::time_point begin_;
    TrafficClock::time_point due_;  // when the next one comes
    double seconds_ = 0;
};

Percentiles percentiles_of(std::vector<double> values) {
    if (values.empty()) return {};
    std::sort(values.begin(), values.end());
    return {quantile(values, 0.5), quantile(values, 0.9), quantile(values, 0.99)};
}

}  // namespace

bool TrafficTargets::holds(const Visit& visit) const {
    return visit.error.empty() && (first_s <= 0 || visit.first_s <= first_s) &&
           (between_s <= 0 || visit.between_s <= between_s);
}

TrafficReport summarize_visits(const std::vector<Visit>& visits, const TrafficTargets& targets) {
    TrafficReport report;
    std::vector<double> first;
    std::vector<double> between;
    std::vector<double> total;
    for (const Visit& visit : visits) {
        ++report.requests;
        if (!visit.error.empty()) {
            ++report.errors[visit.error];
            continue;
        }
        ++report.answered;
        report.tokens += visit.tokens;
        report.without_usage += visit.has_usage ? 0 : 1;
        report.wrong_usage += visit.usage_is_right ? 0 : 1;
        report.good += targets.holds(visit) ? 1 : 0;
        first.push_back(visit.first_s);
        total.push_back(visit.total_s);
        if (visit.between_s > 0) between.push_back(visit.between_s);
    }
    report.first = percentiles_of(std::move(first));
    report.between = percentiles_of(std::move(between));
    report.total = percentiles_of(std::move(total));
    return report;
}

Result<TrafficReport> send_traffic(const TrafficOptions& options, const TrafficTargets& targets) {
    TrafficRun run(options);
    run.run();
    TrafficReport report = summarize_visits(run.visits(), targets);
    report.rate = options.rate;
    report.concurrency = options.concurrency;
    report.seconds = run.seconds();
    if (report.answered > 0) return report;
    const auto most = std::ranges::max_element(report.errors, {}, [](const auto& error) { return error.second; });
    return fail("{}: none of {} requests was answered: {}", options.endpoint.url, report.requests, most->first);
}

}  // namespace tandem::measure
