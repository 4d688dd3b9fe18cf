// Soak: many requests of random lengths at once for a long time, with random cancels, each answer checked by another
// computation: nothing may leak, get stuck, or see somebody else's cache blocks.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>

#include "cpu/backend.h"
#include "engine/bundle.h"
#include "engine/engine.h"
#include "measure/scorer.h"
#include "models/synthetic.h"
#include "plan/several.h"
#include "soak/rank_job.h"
#ifdef TANDEM_VULKAN
#include "vulkan/backend.h"
#endif

namespace tandem::engine {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
    double seconds = 600;
    std::string device = "cpu";
    uint32_t seed = 1;
    int concurrent = 64;
    int verify_one_in = 4;
    bool alone = false;  // nothing is shared and nobody else runs: how far rounding alone gets
    // Of logits: activations are rounded to 8 bits, so that small differences grow; --alone shows how far.
    double tolerance = 2.0;
    bool exact = false;         // a device that rounds nothing, and a tolerance that nothing wrong hides under
    std::string tuning;         // directory of tuning files (vulkan); empty: the defaults
    double stuck_after = 1200;  // seconds; and a quarter of that without any event
    bool mixture = false;       // a random mixture of experts in place of the embedded model
    bool leave = false;         // in the end, those who wait cancel: for a device that would take hours for the rest
};

// What became of one choice.
struct Outcome {
    Request request;
    int choice = 0;
    std::vector<TokenId> tokens;
    Finish finish;
    Clock::time_point submitted;
};

// How far a drawn token is from the one that the scorer's logits would have drawn, in logits.
double deviation(std::span<const float> logits, const device::SamplingParams& params, uint64_t draw, TokenId token) {
    const auto value = [&](TokenId id) {
        const auto logit = static_cast<double>(logits[static_cast<size_t>(id)]);
        if (!(params.temperature > 0)) return logit;
        const auto uniform = static_cast<double>(device::sampling_uniform(params.seed, draw, id));
        return logit - std::log(-std::log(uniform)) * static_cast<double>(params.temperature);
    };
    double best = -1e30;
    for (TokenId id = 0; id < std::ssize(logits); ++id) best = std::max(best, value(id));
    return best - value(token);
}

// People who ask, change their minds, and look closely at the answers.
class Users {
  public:
    Users(Engine& engine, const Bundle& bundle, device::Backend& checker, const Options& options)
        : engine_(engine), bundle_(bundle), checker_(checker), options_(options), random_(options.seed) {}

    // Asks until `end`, then waits for the last answers. Returns what is wrong, or nothing.
    std::string run(Clock::time_point end) {
        scorer_ = measure::Scorer::open(bundle_.model, checker_, {.context = engine_.context()}).value();
        double warm = 0;
        while (problem_.empty()) {
            const bool asking = Clock::now() < end;
            while (asking && unfinished() < options_.concurrent) ask();
            if (!asking && unfinished() == 0) break;
            if (!asking && options_.leave) cancel_all();
            look_at_answers();
            if (warm == 0 && answers > 400) warm = resident_megabytes();
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        grown_megabytes = warm == 0 ? 0 : resident_megabytes() - warm;
        return problem_;
    }

    int answers = 0;
    int cancelled = 0;
    int verified = 0;
    double largest_deviation = 0;
    double grown_megabytes = 0;

  private:
    int pick(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
    bool chance(int percent) { return pick(100) < percent; }
    int unfinished() {
        const std::lock_guard lock(mutex_);
        return static_cast<int>(open_.size());
    }

    std::vector<TokenId> random_prompt() {
        static const std::vector<std::string> beginnings = {
            "Once upon a time there was a fox who", "You are a wise owl. Answer in one sentence. What is",
            "Lily and Tom went to the park. They saw a big dog and", "The"};
        static const std::vector<std::string> words = {" a red ball", " the old king",  " two and three",
                                                       " slept",      " in the forest", ", but",
                                                       " she said",   " far away"};
        if (!history_.empty() && chance(40)) {  // a conversation goes on
            std::vector<TokenId> prompt = history_[static_cast<size_t>(pick(static_cast<int>(history_.size())))];
            const auto more = bundle_.tokenizer.encode(words[static_cast<size_t>(pick(8))], {.add_special = false});
            prompt.insert(prompt.end(), more.begin(), more.end());
            return prompt;
        }
        std::string text = beginnings[static_cast<size_t>(pick(4))];
        for (int i = pick(40); i > 0; --i) text += words[static_cast<size_t>(pick(8))];
        return bundle_.tokenizer.encode(text);
    }

    void ask() {
        Request request;
        request.prompt = random_prompt();
        const int room = engine_.context() - static_cast<int>(request.prompt.size());
        if (room < 2) return;
        request.max_tokens = 1 + pick(std::min(room, 80));
        request.ignore_end = chance(50);
        request.sampling.temperature = chance(50) ? 0.0F : 0.8F;
        request.sampling.seed = random_();
        request.n = chance(10) ? 2 + pick(2) : 1;
        request.priority = pick(3);
        if (chance(10)) request.salt = "somebody";
        if (options_.alone) request.salt = fmt::format("{}", next_);
        if (chance(10)) request.logprobs = 2;
        if (chance(3)) request.embed = Pooling::mean;
        if (request.embed) request.n = 1;
        if (request.embed) request.logprobs.reset();
        if (chance(3)) request.deadline = Clock::now() + std::chrono::milliseconds(pick(2000));
        const int number = next_++;
        {
            const std::lock_guard lock(mutex_);
            for (int choice = 0; choice < request.n; ++choice) {
                Outcome& outcome = open_[{number, choice}];
                outcome.request = request;
                outcome.submitted = Clock::now();
            }
        }
        request.on_event = [this, number](const Event& event) { take(number, event); };
        const auto id = engine_.submit(request);
        if (!id) {
            problem_ = "refused: " + id.error().message;
            return;
        }
        ids_.push_back(*id);
        last_id_ = *id;
        if (std::ssize(ids_) > options_.concurrent) ids_.pop_front();
        if (chance(25)) cancel();  // some have ended by then
    }

    void take(int number, const Event& event) {
        const std::lock_guard lock(mutex_);
        const auto found = open_.find({number, event.choice});
        if (found == open_.end()) {
            late_ = true;
            return;
        }
        last_event_ = Clock::now();
        Outcome& outcome = found->second;
        outcome.tokens.insert(outcome.tokens.end(), event.tokens.begin(), event.tokens.end());
        if (event.finish == nullptr) return;
        outcome.finish = *event.finish;
        outcome.choice = event.choice;
        done_.push_back(std::move(outcome));
        open_.erase(found);
    }

    void cancel() {
        if (!ids_.empty()) engine_.cancel(ids_[static_cast<size_t>(pick(static_cast<int>(ids_.size())))]);
    }

    void cancel_all() {
        for (; last_id_ > 0; --last_id_) engine_.cancel(last_id_);  // they are counted; most have ended
    }

    void look_at_answers() {
        std::vector<Outcome> done;
        {
            const std::lock_guard lock(mutex_);
            done.swap(done_);
            if (late_) problem_ = "an event came after the last one";
            const auto seconds_since = [](Clock::time_point then) {
                return std::chrono::duration<double>(Clock::now() - then).count();
            };
            for (const auto& [key, outcome] : open_) {
                if (seconds_since(outcome.submitted) > options_.stuck_after)
                    problem_ = fmt::format("request {} is stuck", key.first);
            }
            if (!open_.empty() && seconds_since(last_event_) > options_.stuck_after / 4) problem_ = "nothing moves";
        }
        for (const Outcome& outcome : done) {
            ++answers;
            if (outcome.finish.reason == FinishReason::cancelled) ++cancelled;
            if (outcome.finish.reason == FinishReason::error) problem_ = outcome.finish.error;
            if (!outcome.request.embed && pick(options_.verify_one_in) == 0) verify(outcome);
            remember(outcome);
        }
    }

    void remember(const Outcome& outcome) {
        std::vector<TokenId> all = outcome.request.prompt;
        all.insert(all.end(), outcome.tokens.begin(), outcome.tokens.end());
        if (std::ssize(all) > engine_.context() - 60) return;
        history_.push_back(std::move(all));
        if (history_.size() > 50) history_.pop_front();
    }

    void verify(const Outcome& outcome) {
        if (outcome.tokens.empty()) return;
        std::vector<TokenId> all = outcome.request.prompt;
        all.insert(all.end(), outcome.tokens.begin(), outcome.tokens.end() - 1);
        device::SamplingParams params = outcome.request.sampling;
        params.seed += static_cast<uint64_t>(outcome.choice);
        const int first = static_cast<int>(outcome.request.prompt.size()) - 1;
        double worst = 0;
        const Status scored = scorer_->score(all, [&](int position, std::span<const float> logits) -> Status {
            if (position < first) return Ok{};
            const auto draw = static_cast<size_t>(position - first);
            worst = std::max(worst, deviation(logits, params, draw, outcome.tokens[draw]));
            return Ok{};
        });
        if (!scored) problem_ = scored.error().message;
        ++verified;
        largest_deviation = std::max(largest_deviation, worst);
        if (worst > options_.tolerance)
            problem_ =
                fmt::format("an answer of {} tokens to {} has one that is {:.2f} from the likeliest: a wrong block?",
                            outcome.tokens.size(), outcome.request.prompt.size(), worst);
    }

    Engine& engine_;
    const Bundle& bundle_;
    device::Backend& checker_;
    Options options_;
    std::mt19937 random_;
    std::unique_ptr<measure::Scorer> scorer_;
    std::deque<std::vector<TokenId>> history_;  // that conversations go on from
    std::deque<RequestId> ids_;                 // of the last requests
    RequestId last_id_ = 0;
    int next_ = 0;
    std::string problem_;

    std::mutex mutex_;  // of what follows
    std::map<std::pair<int, int>, Outcome> open_;
    std::vector<Outcome> done_;
    bool late_ = false;
    Clock::time_point last_event_ = Clock::now();
};

// The device under test, and another that says what its answers should have been: on the CPU one that rounds in the
// same way, on a GPU, whose kernels for many rows round less than those for one, one that does not round at all.
struct Devices {
    std::unique_ptr<device::Backend> tested;
    std::unique_ptr<device::Backend> checker;
};

// `post`: of the job, if this is one.
Result<Devices> open_devices(const Options& options, const Bundle& bundle, std::shared_ptr<ranks::Post> post) {
    Devices devices;
    if (options.device == "ranks") {
        devices.tested = TRY(open_ranks(std::move(post), {.seconds = options.seconds, .exact = options.exact}));
        devices.checker = TRY(cpu::make_backend({.threads = 1, .reference = options.exact}));
        return devices;
    }
    if (options.device == "cpu,cpu") {  // half of the layers each
        std::vector<std::unique_ptr<device::Backend>> both;
        for (int i = 0; i < 2; ++i) both.push_back(TRY(cpu::make_backend({.threads = 1, .reference = options.exact})));
        devices.tested =
            plan::make_several(std::move(both), {.cuts = fmt::format("{}", bundle.model.program.caches.size() / 2)});
        devices.checker = TRY(cpu::make_backend({.threads = 1, .reference = options.exact}));
        return devices;
    }
    if (options.device == "cpu") {
        devices.tested = TRY(cpu::make_backend({.reference = options.exact}));
        devices.checker = TRY(cpu::make_backend({.threads = 1, .reference = options.exact}));
        return devices;
    }
#ifdef TANDEM_VULKAN
    if (options.device == "vulkan") {
        devices.tested = TRY(vulkan::make_backend({.exact = options.exact, .tuning = options.tuning}));
        devices.checker = TRY(vulkan::make_backend({.exact = true}));
        return devices;
    }
#endif
    return fail("{}: choose cpu, cpu,cpu, vulkan or ranks", options.device);
}

// The file is only there until it is mapped.
Result<Bundle> open_mixture() {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / fmt::format("tandem-soak-{}.gguf", getpid());
    TRY(models::write_random_gguf(path, {.family = "qwen3moe",
                                         .dim = 128,
                                         .layers = 4,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .head_dim = 32,
                                         .vocab = 2048,
                                         .context_length = 512,
                                         .experts = 16,
                                         .used_experts = 3,
                                         .expert_ffn_dim = 96,
                                         .type = DType::q8_0}));
    auto bundle = open_bundle(path.string());
    std::filesystem::remove(path);
    return bundle;
}

Status soak(const Options& options) {
    const Bundle bundle = TRY(options.mixture ? open_mixture() : open_bundle(""));
    std::shared_ptr<ranks::Post> post;
    if (options.device == "ranks") post = TRY(join_ranks());
    if (post && post->rank() > 0)
        return work_as_rank(*post, bundle.model, {.seconds = options.seconds, .exact = options.exact});
    const Devices devices = TRY(open_devices(options, bundle, std::move(post)));
    // Far too small a cache for all: blocks are taken away and found again all the time.
    const auto engine = TRY(Engine::open(
        bundle.model, bundle.tokenizer, *devices.tested,
        {.context = 512, .sequences = 32, .rows = 128, .cache_tokens = 3000, .block_tokens = 16, .looks_up = true}));
    Users users(*engine, bundle, *devices.checker, options);
    std::string problem;
    std::atomic<bool> done = false;
    const auto end =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds));
    std::thread asking([&] {
        problem = users.run(end);
        done = true;
    });
    std::string wrong;
    for (int64_t step = 0; !done; ++step) {
        if (!engine->step()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (step % 64 == 0 && wrong.empty()) wrong = engine->audit();
    }
    asking.join();
    engine->run_until_idle();
    const EngineStats stats = engine->stats();
    fmt::print(
        "{}: {} answers ({} cancelled), {} verified, largest deviation {:.3f}\n"
        "{} steps, {:.2f} ms of device and {:.3f} ms of host each; {} prompt tokens ({} cached), {} generated, "
        "{} preemptions, {} of {} guesses right\n"
        "memory grew by {:.1f} MB\n",
        options.device, users.answers, users.cancelled, users.verified, users.largest_deviation, stats.steps,
        1e3 * stats.device_seconds / static_cast<double>(stats.steps),
        1e3 * stats.host_seconds / static_cast<double>(stats.steps), stats.prompt_tokens, stats.cached_tokens,
        stats.generated_tokens, stats.preemptions, stats.accepted_tokens, stats.drafted_tokens, users.grown_megabytes);
    if (!problem.empty()) return Error{problem};
    if (wrong.empty()) wrong = engine->audit();
    if (!wrong.empty()) return Error{wrong};
    if (stats.running + stats.waiting > 0 || stats.cache_usage > 0) return fail("something is left over");
    return Ok{};
}

}  // namespace
}  // namespace tandem::engine

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): out of memory ends it
    tandem::engine::Options options;
    CLI::App app("Many random requests at once, each answer checked");
    app.add_option("--seconds", options.seconds, "How long to ask (600)");
    app.add_option("--device", options.device,
                   "cpu, cpu,cpu (half of the layers each), vulkan, or ranks, by mpirun (cpu)");
    app.add_option("--seed", options.seed, "Of what is asked (1)");
    app.add_option("--concurrent", options.concurrent, "Answers under way at once (64)");
    app.add_option("--tolerance", options.tolerance, "How far from the likeliest a token may be, in logits (2)");
    app.add_option("--tuning", options.tuning, "Directory of tuning files, for vulkan");
    app.add_option("--verify-one-in", options.verify_one_in, "Of how many answers one is checked (4)");
    app.add_option("--stuck-after", options.stuck_after, "Seconds that an answer may take (1200)");
    app.add_flag("--mixture", options.mixture, "A random mixture of experts instead of the embedded model");
    app.add_flag("--leave", options.leave, "In the end, cancel what is under way instead of waiting for it");
    app.add_flag("--exact", options.exact, "A device that rounds nothing; the tolerance is 0.01 then");
    app.add_flag("--alone", options.alone, "Nothing is shared and nobody else runs: how far rounding alone gets");
    CLI11_PARSE(app, argc, argv);
    if (options.alone) options.concurrent = 1;
    if (options.exact && app.count("--tolerance") == 0) options.tolerance = 0.01;
    const tandem::Status status = tandem::engine::soak(options);
    if (!status) fmt::print(stderr, "soak: {}\n", status.error().message);
    return status ? 0 : 1;
}
