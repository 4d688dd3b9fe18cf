#include "cli/model_source.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "cli/interrupt.h"
#include "cli/text_output.h"
#include "device/host_memory.h"
#include "hub/pull.h"
#include "user/devices.h"
#include "user/models.h"

namespace tandem::cli {

namespace {

using Clock = std::chrono::steady_clock;

// A line on standard error: how much is there, how fast the rest comes, and when it will be done. Silent unless that is
// a terminal.
class TransferLine {
  public:
    TransferLine() : is_terminal_(has_control_sequences(STDERR_FILENO)) {}
    TransferLine(const TransferLine&) = delete;
    TransferLine& operator=(const TransferLine&) = delete;
    ~TransferLine() {
        if (is_shown_) std::fputs("\r\x1b[K", stderr);
    }

    void show(const hub::PullEvents::Step& step) {
        const Clock::time_point now = Clock::now();
        if (!begin_) {
            begin_ = now;
            begin_bytes_ = step.done_bytes;
        }
        if (!is_terminal_ || (is_shown_ && now - shown_ < std::chrono::milliseconds(200))) return;
        is_shown_ = true;
        shown_ = now;
        const double elapsed = std::chrono::duration<double>(now - *begin_).count();
        const auto arrived = static_cast<double>(step.done_bytes - std::min(step.done_bytes, begin_bytes_));
        const auto to_come = static_cast<double>(step.size_bytes - begin_bytes_);
        const double share =
            step.size_bytes > 0 ? static_cast<double>(step.done_bytes) / static_cast<double>(step.size_bytes) : 1;
        constexpr int kBar = 24;
        const auto filled = static_cast<size_t>(kBar * std::min(share, 1.0));
        const std::string left = time_left(elapsed, to_come > 0 ? arrived / to_come : 1);
        const std::string rate =
            elapsed < 1 ? "" : fmt::format(", {}/s", format_bytes(static_cast<uint64_t>(arrived / elapsed)));
        fmt::print(stderr, "\r[{}{}] {:3.0f}%  {} of {}{}{}\x1b[K", std::string(filled, '#'),
                   std::string(kBar - filled, '.'), 100 * std::min(share, 1.0), format_bytes(step.done_bytes),
                   format_bytes(step.size_bytes), rate, left.empty() ? "" : fmt::format(", {} left", left));
    }
    void clear() {
        if (is_shown_) std::fputs("\r\x1b[K", stderr);
        is_shown_ = false;
    }

  private:
    bool is_terminal_;
    bool is_shown_ = false;
    Clock::time_point shown_;
    std::optional<Clock::time_point> begin_;
    uint64_t begin_bytes_ = 0;  // that were there from an earlier run
};

Status check_memory(const hub::PullEvents::Plan& plan) {
    const uint64_t most = largest_model_bytes();
    if (most == 0 || plan.size_bytes <= most) return Ok{};
    return fail(
        "{}: its weights are {} and no device of this machine can hold more than {}: take a smaller model or "
        "quantization (tandem list --available), or fetch it with --anyway",
        plan.name, format_bytes(plan.size_bytes), format_bytes(most));
}

}  // namespace

uint64_t largest_model_bytes() {
    uint64_t most = device::host_memory().size_bytes;
    const Result<user::DeviceList> devices = user::list_devices();
    if (!devices) return most;
    for (const user::ListedDevice& listed : devices->devices) {
        uint64_t pools = 0;
        for (const device::MemoryPool& pool : listed.device.pools) pools += pool.size_bytes;
        most = std::max(most, pools);
    }
    return most;
}

Result<hub::LocalModel> fetch_model(const std::string& name, const hub::Reference& reference,
                                    const FetchOptions& options) {
    hub::Http http({.places = hub::find_places(), .stop = interrupted});
    TransferLine line;
    hub::PullEvents::Plan planned;
    const hub::PullEvents events{.plan = [&](const hub::PullEvents::Plan& plan) -> Status {
                                     planned = plan;
                                     if (!options.anyway) TRY(check_memory(plan));
                                     if (options.quiet) return Ok{};
                                     note(fmt::format("{}: {}{}{}", plan.name, format_bytes(plan.size_bytes),
                                                      plan.why.empty() ? "" : ", taken because " + plan.why,
                                                      plan.to_fetch_bytes == 0 ? ", is here" : ""));
                                     return Ok{};
                                 },
                                 .step = [&](const hub::PullEvents::Step& step) { line.show(step); },
                                 .note =
                                     [&](std::string_view text) {
                                         line.clear();
                                         if (!options.quiet) note(text);
                                     }};
    Result<hub::LocalModel> model = hub::pull(http, reference, events);
    line.clear();
    if (!model && hub::is_stopped(model.error())) {
        return fail("{}: stopped; what has arrived is kept, and the same command goes on from there", name);
    }
    return model;
}

Result<std::string> find_or_fetch(const std::string& model, const FetchOptions& options) {
    if (model.empty() || user::names_a_model(model)) return model;
    const Result<hub::LocalModel> here = user::require_model(model);
    if (here) return here->path.string();
    const std::optional<hub::Reference> remote = TRY(user::find_remote(model));
    if (!remote) return here.error();
    catch_interrupts(SecondInterrupt::ends_program);
    return TRY(fetch_model(model, *remote, options)).path.string();
}

}  // namespace tandem::cli
