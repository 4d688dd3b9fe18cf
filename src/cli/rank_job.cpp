#include "cli/rank_job.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <utility>

#include "base/module.h"
#include "cli/command.h"
#include "cli/machine_profile.h"
#include "cli/model_source.h"
#include "cli/text_output.h"
#include "ranks/mpi.h"
#include "ranks/order.h"
#include "ranks/worker.h"
#include "user/models.h"

namespace tandem::cli {

namespace {

constexpr int kGpuPromptRows = 256;  // of a micro-batch: fewer leave a GPU half empty
constexpr int kCpuPromptRows = 64;

std::string host_name() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

sigset_t watched_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2}) sigaddset(&signals, signal);
    return signals;
}

}  // namespace

Result<std::unique_ptr<RankJob>> RankJob::join(user::DeviceOptions& options, bool watches) {
    const std::optional<int> launched = ranks::launched_ranks();
    if (options.split.empty()) return std::unique_ptr<RankJob>();
    if (!launched || *launched < 2) {
        if (options.split != "layers") return std::unique_ptr<RankJob>();  // of several devices of this process
        return fail(
            "--split layers: there are no ranks to split over: start this with `mpirun -np 2` or more, or give "
            "`tandem serve` --hosts");
    }
    std::unique_ptr<ranks::Transport> transport = TRY(ranks::open_mpi());
    if (watches) {  // before there is any other thread
        const sigset_t signals = watched_signals();
        pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    }
    const auto tell = [watches](const std::string& why) {
        std::fprintf(stderr, "tandem: %s: the job ends\n", why.c_str());  // MPI_Abort leaves no later moment
        if (watches) kill(getpid(), SIGUSR2);
    };
    std::shared_ptr<ranks::Post> post = TRY(ranks::Post::open(
        std::move(transport),
        {.silence = std::chrono::seconds(options.rank_timeout_s), .lost_exit_code = kExitLost, .on_failure = tell}));
    if (post->rank() > 0) {
        std::signal(SIGUSR1, SIG_IGN);  // mpirun tells all ranks what rank 0 should know
        std::signal(SIGUSR2, SIG_IGN);
        const sigset_t signals = watched_signals();
        pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    }
    std::string split = std::exchange(options.split, "");
    return std::unique_ptr<RankJob>(new RankJob(options, std::move(split), std::move(post)));
}

RankJob::~RankJob() {
    unwatch();
    if (!is_first() || has_met_) return;
    ranks::Writer writer;  // rank 0 ends before anything began: the others wait for a word
    writer.put(static_cast<uint8_t>(ranks::OrderKind::end));
    for (int rank = 1; rank < post_->size(); ++rank) post_->send(rank, ranks::Channel::command, writer.bytes());
}

ranks::Greeting RankJob::greeting(const device::Backend* backend, const std::string& error) const {
    ranks::Greeting own;
    own.version = build_version();
    own.settings = fmt::format("--split {}{}", split_, options_.exact ? " --exact" : "");
    own.host = host_name();
    own.error = error;
    if (backend != nullptr) {
        const device::Description device = backend->describe();
        own.device = device.name;
        own.hardware = device.hardware;
        own.free_bytes = device.free_bytes();
    }
    return own;
}

Result<std::unique_ptr<device::Backend>> RankJob::together(std::unique_ptr<device::Backend> local,
                                                           user::Devices& devices) {
    if (has_met_) return fail("another model cannot be loaded: the ranks of a job have one model");
    has_met_ = true;
    const device::Description own = local->describe();
    const bool on_cpu = own.kind == device::Kind::cpu;
    std::shared_ptr<ranks::Ranks> met =
        TRY(ranks::Ranks::meet(post_, greeting(local.get(), ""),
                               {.split = split_,
                                .measure_rates = [&devices] { return devices.measure_rates(); },
                                .prompt_rows = on_cpu ? kCpuPromptRows : kGpuPromptRows,
                                .exact_rows = options_.exact}));
    const std::lock_guard lock(mutex_);
    ranks_ = met;
    const std::optional<DeviceProfile> profile = kept_profile(profile_file(), own);
    if (profile && met->are_alike()) speeds_ = profile->speeds;
    return ranks::make_backend(std::move(met), std::move(local));
}

std::vector<ranks::StageReport> RankJob::report() const {
    const std::lock_guard lock(mutex_);
    return ranks_ ? ranks_->report() : std::vector<ranks::StageReport>();
}

plan::StepShares RankJob::last_step() const {
    const std::lock_guard lock(mutex_);
    if (!ranks_) return {};
    return ranks_->last_step(speeds_ ? &*speeds_ : nullptr);
}

// Busy: of the time that steps took. What all are busy together is what one machine would have needed.
std::string RankJob::report_text() const {
    const std::lock_guard lock(mutex_);
    if (!ranks_ || ranks_->steps() == 0) return {};
    const auto steps = static_cast<double>(ranks_->steps());
    const double whole = ranks_->step_seconds();
    const std::vector<ranks::StageReport> stages = ranks_->report();
    Table table(
        {"RANK", "HOST", "DEVICE", "LAYERS", "WEIGHTS", "BUSY MS/STEP", "WAITS MS/STEP", "BUSY", "SENT/STEP", "HOP US"},
        {4, 5, 6, 7, 8, 9});
    double busy = 0;
    for (const ranks::StageReport& stage : stages) {
        busy += stage.seconds.busy;
        table.add({std::to_string(stage.rank), stage.host, stage.device, stage.layers(),
                   format_bytes(stage.weight_bytes), fmt::format("{:.3f}", stage.seconds.busy / steps * 1e3),
                   fmt::format("{:.3f}", stage.seconds.waiting / steps * 1e3),
                   fmt::format("{:.0f} %", 100 * stage.seconds.busy / whole),
                   format_bytes(static_cast<uint64_t>(static_cast<double>(stage.sent_bytes) / steps)),
                   fmt::format("{:.0f}", stage.hop_seconds * 1e6)});
    }
    const double ranks = static_cast<double>(stages.size());
    return fmt::format("\n{} steps of {:.3f} ms over {} ranks\n", ranks_->steps(), whole / steps * 1e3, stages.size()) +
           table.to_string() +
           fmt::format("bubble: {:.0f} % of the ranks' time; {:.2f} ranks busy at once (one machine alone: 1)\n",
                       100 * (1 - busy / whole / ranks), busy / whole);
}

Result<int> RankJob::work(const std::function<Result<const models::Model*>()>& open) {
    user::Devices devices(options_, note);
    std::unique_ptr<device::Backend> backend;
    const auto prepare = [&]() -> Result<const models::Model*> {
        const models::Model* const model = TRY(open());
        backend = TRY(devices.open(model->weights.size_bytes()));
        return model;
    };
    const Result<const models::Model*> model = prepare();
    ranks::greet(*post_, greeting(backend.get(), model ? "" : model.error().message));
    if (!model) {
        TRY(post_->receive(0, ranks::Channel::command));  // that it ends
        return 0;  // rank 0 says why, and fails: mpirun would not let it if this one failed first
    }
    TRY(ranks::work(*post_, {.program = (*model)->program,
                             .weights = (*model)->weights,
                             .backend = *backend,
                             .measure_rates = [&devices] { return devices.measure_rates(); }}));
    return 0;
}

Result<int> RankJob::work(const std::string& model) {
    std::optional<format::Checkpoint> checkpoint;
    models::Model loaded;
    return work([&]() -> Result<const models::Model*> {
        const std::string source = TRY(find_or_fetch(model, {}));
        checkpoint = TRY(user::open_checkpoint(source));
        loaded = TRY(models::load(*checkpoint));
        return &loaded;
    });
}

void RankJob::watch(std::function<void()> stop) {
    watcher_ = std::thread([this, stop = std::move(stop)] {
        const sigset_t signals = watched_signals();
        for (;;) {
            int signal = 0;
            if (sigwait(&signals, &signal) != 0) continue;
            if (signal == SIGTERM) post_->fail("the job was told to end, as it is when a rank has died");
            if (unwatched_) return;
            stop();
        }
    });
}

void RankJob::unwatch() {
    if (!watcher_.joinable()) return;
    unwatched_ = true;
    kill(getpid(), SIGUSR2);
    watcher_.join();
}

Result<std::unique_ptr<device::Backend>> open_device(user::Devices& devices, RankJob* job, uint64_t weight_bytes) {
    std::unique_ptr<device::Backend> local = TRY(devices.open(weight_bytes));
    if (job == nullptr) return local;
    return job->together(std::move(local), devices);
}

}  // namespace tandem::cli
