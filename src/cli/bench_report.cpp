#include "cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/text_output.h"

namespace tandem::cli {

namespace {

using measure::BenchmarkRow;
using Json = nlohmann::ordered_json;

std::string name_of(const BenchmarkRow& row) {
    if (row.kind == BenchmarkRow::Kind::prompt) return fmt::format("prompt of {}", row.context);
    return fmt::format("decode, {} sequence{}, context {}", row.sequences, row.sequences == 1 ? "" : "s", row.context);
}

// Of a limit that may not be known.
double share(double rate, double limit) {
    return limit > 0 ? rate / limit : 0;
}

// What a step reads is in the caches since the step before: the rate of memory is no limit to it.
bool is_cached(const BenchReport& report, const BenchmarkRow& row) {
    return row.pass_bytes <= report.rates.cache_bytes;
}

double read_share(const BenchReport& report, const BenchmarkRow& row) {
    return share(row.work.bytes / row.seconds.median, report.rates.read_bytes_per_s);
}

double matrix_share(const BenchReport& report, const BenchmarkRow& row) {
    return share(row.work.flops / row.seconds.median, report.rates.matrix_flops_per_s);
}

std::string percent(double share) {
    return share > 0 ? fmt::format("{:.0f} %", 100 * share) : "-";
}

std::string read_share_text(const BenchReport& report, const BenchmarkRow& row) {
    return is_cached(report, row) ? "cached" : percent(read_share(report, row));
}

// What the shares do not say.
std::string footnotes(const BenchReport& report) {
    std::string text;
    const auto any = [&](const auto& holds) { return std::any_of(report.rows.begin(), report.rows.end(), holds); };
    if (any([&](const BenchmarkRow& row) { return is_cached(report, row); })) {
        text += fmt::format("cached: fits the caches of {}, so that reading memory is no limit\n",
                            format_bytes(static_cast<uint64_t>(report.rates.cache_bytes)));
    }
    if (any([&](const BenchmarkRow& row) { return !is_cached(report, row) && read_share(report, row) > 1; }))
        text += "over 100 %: a part of it comes from caches\n";
    return text;
}

std::string heading(const BenchReport& report) {
    std::string text = fmt::format("{} on {}: {} ({})\nreads {:.1f} GB/s", report.model, report.device.name,
                                   report.device.hardware, report.device.details, report.rates.read_bytes_per_s / 1e9);
    if (report.rates.matrix_flops_per_s > 0)
        text += fmt::format(", multiplies matrices at {:.1f} TFLOP/s", report.rates.matrix_flops_per_s / 1e12);
    return text + "\n\n";
}

std::string agreement_table(const BenchReport& report) {
    Table table({"AGAINST THE CPU", "KL", "DIFFERENCE", "SAME TOP", ""}, {1, 2});
    for (const measure::AgreementRow& row : report.agreement) {
        const bool good = report.tolerance.holds(row.distance);
        table.add({row.what, fmt::format("{:.2e}", row.distance.kl), fmt::format("{:.2e}", row.distance.difference),
                   row.distance.same_top ? "yes" : "no",
                   !row.distance.finite ? "NOT FINITE"
                   : good               ? "ok"
                                        : "TOO FAR"});
    }
    return "\n" + table.to_string() +
           fmt::format("at most {} of KL divergence, and {} of the largest logit between two\n", report.tolerance.kl,
                       report.tolerance.difference);
}

// Where the time goes, the largest part first.
std::string profile_table(const BenchReport& report, const BenchmarkRow& row) {
    if (row.profile.empty()) return {};
    std::vector<device::StageTime> stages = row.profile;
    std::sort(stages.begin(), stages.end(),
              [](const device::StageTime& a, const device::StageTime& b) { return a.seconds > b.seconds; });
    double total = 0;
    for (const device::StageTime& stage : stages) total += stage.seconds;
    Table table({"", "TIMES", "US EACH", "OF THE TIME", "WEIGHTS GB/S", "OF LIMIT"}, {1, 2, 3, 4, 5});
    for (const device::StageTime& stage : stages) {
        const double rate = static_cast<double>(stage.weight_bytes) / stage.seconds;
        const bool weights = stage.weight_bytes > 0;
        table.add(
            {stage.name, std::to_string(stage.count), fmt::format("{:.2f}", stage.seconds / stage.count * 1e6),
             percent(stage.seconds / total), weights ? fmt::format("{:.1f}", rate / 1e9) : "",
             weights ? (is_cached(report, row) ? "cached" : percent(share(rate, report.rates.read_bytes_per_s))) : ""});
    }
    return fmt::format("\n{}: {:.3f} ms with a clock read after each part\n", name_of(row), total * 1e3) +
           table.to_string();
}

// Joules by token, where the machine counts them.
std::string energy_table(const BenchReport& report) {
    if (report.rows.empty() || report.rows.front().energy.empty()) return {};
    std::vector<std::string> header = {"ENERGY", "J/TOKEN", "WATTS"};
    std::vector<size_t> right = {1, 2};
    for (const measure::EnergyUse& use : report.rows.front().energy) {
        right.push_back(header.size());
        header.push_back(use.source + (use.is_part ? "" : " (not in the sum)"));
    }
    Table table(std::move(header), std::move(right));
    for (const BenchmarkRow& row : report.rows) {
        const double joules = measure::total_joules(row.energy);
        std::vector<std::string> cells = {name_of(row), format_rate(joules), format_rate(joules * row.tokens_per_s())};
        for (const measure::EnergyUse& use : row.energy) cells.push_back(format_rate(use.joules));
        table.add(std::move(cells));
    }
    return "\n" + table.to_string();
}

// What each of several devices did of the step before the profile, or of a prompt's last chunk.
std::string shares_table(const BenchmarkRow& row, const plan::StepShares& step) {
    if (step.devices.empty()) return {};
    Table table({"", "", "PREDICTED MS", "MEASURED MS", "OF THE STEP", "SENT"}, {2, 3, 4, 5});
    for (const plan::StepShares::Share& share : step.devices) {
        table.add({share.device, share.part,
                   share.predicted_s > 0 ? fmt::format("{:.3f}", share.predicted_s * 1e3) : "-",
                   fmt::format("{:.3f}", share.busy_s * 1e3), percent(share.busy_s / step.seconds),
                   share.sent_bytes > 0 ? format_bytes(share.sent_bytes) : "-"});
    }
    std::string text =
        fmt::format("\n{}: a step of {:.3f} ms, in which the devices had nothing to do for {:.0f} % (bubble)\n",
                    name_of(row), step.seconds * 1e3, 100 * step.bubble()) +
        table.to_string();
    if (step.alone_s > 0)
        text += fmt::format("one of them alone should take {:.3f} ms: efficiency {:.0f} % of {} times its rate\n",
                            step.alone_s * 1e3, 100 * step.efficiency(), step.devices.size());
    return text;
}

Json to_json(const plan::StepShares& step) {
    Json devices = Json::array();
    for (const plan::StepShares::Share& share : step.devices) {
        devices.push_back({{"device", share.device},
                           {"part", share.part},
                           {"predicted_ms", share.predicted_s > 0 ? Json(share.predicted_s * 1e3) : Json()},
                           {"busy_ms", share.busy_s * 1e3},
                           {"sent_bytes", share.sent_bytes}});
    }
    return {{"ms", step.seconds * 1e3},
            {"bubble", step.bubble()},
            {"alone_ms", step.alone_s > 0 ? Json(step.alone_s * 1e3) : Json()},
            {"efficiency", step.alone_s > 0 ? Json(step.efficiency()) : Json()},
            {"devices", std::move(devices)}};
}

}  // namespace

std::string describe(const BenchReport& report, const BenchmarkRow& row) {
    return fmt::format(
        "{}: {:.1f} tokens/s, {:.3f} ms, {}", name_of(row), row.tokens_per_s(), row.seconds.median * 1e3,
        is_cached(report, row) ? "fits the caches" : percent(read_share(report, row)) + " of the read rate");
}

std::string to_text(const BenchReport& report) {
    Table table({"", "TOKENS/S", "MS", "+-", "OUTLIERS", "GB", "GB/S", "OF LIMIT", "TFLOP", "TFLOP/S", "OF LIMIT",
                 "CPU MS/TOKEN"},
                {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    for (const BenchmarkRow& row : report.rows) {
        table.add({name_of(row), fmt::format("{:.1f}", row.tokens_per_s()),
                   fmt::format("{:.3f}", row.seconds.median * 1e3), fmt::format("{:.3f}", row.seconds.ci95 * 1e3),
                   fmt::format("{} of {}", row.seconds.outliers, row.seconds.outliers + row.seconds.samples),
                   fmt::format("{:.3f}", row.work.bytes / 1e9),
                   fmt::format("{:.1f}", row.work.bytes / row.seconds.median / 1e9), read_share_text(report, row),
                   fmt::format("{:.3f}", row.work.flops / 1e12),
                   fmt::format("{:.2f}", row.work.flops / row.seconds.median / 1e12),
                   percent(matrix_share(report, row)), fmt::format("{:.4f}", row.cpu_s * 1e3)});
    }
    std::string profiles;
    for (size_t i = 0; i < report.rows.size(); ++i) {
        const BenchmarkRow& row = report.rows[i];
        profiles += shares_table(row, report.shares[i]);
        profiles += profile_table(report, row);
    }
    return heading(report) + table.to_string() + footnotes(report) + energy_table(report) + profiles +
           (report.agreement.empty() ? "" : agreement_table(report));
}

std::string to_json(const BenchReport& report) {
    Json rows = Json::array();
    for (size_t i = 0; i < report.rows.size(); ++i) {
        const BenchmarkRow& row = report.rows[i];
        const bool prompt = row.kind == BenchmarkRow::Kind::prompt;
        Json profile = Json::array();
        for (const device::StageTime& stage : row.profile) {
            profile.push_back({{"name", stage.name},
                               {"count", stage.count},
                               {"us", stage.seconds * 1e6},
                               {"weight_bytes", stage.weight_bytes}});
        }
        Json each = Json::array();
        for (const double sample : row.samples_s) each.push_back(sample * 1e3);
        rows.push_back({{"kind", prompt ? "prompt" : "decode"},
                        {"sequences", row.sequences},
                        {prompt ? "prompt" : "context", row.context},
                        {"tokens_per_s", row.tokens_per_s()},
                        {"ms", row.seconds.median * 1e3},
                        {"ms_mean", row.seconds.mean * 1e3},
                        {"ms_deviation", row.seconds.deviation * 1e3},
                        {"ms_ci95", row.seconds.ci95 * 1e3},
                        {"samples", row.seconds.samples},
                        {"outliers", row.seconds.outliers},
                        {"ms_each", std::move(each)},
                        {"bytes", row.work.bytes},
                        {"flops", row.work.flops},
                        {"fits_caches", is_cached(report, row)},
                        {"read_share", is_cached(report, row) ? Json() : Json(read_share(report, row))},
                        {"matrix_share", matrix_share(report, row)},
                        {"cpu_ms_per_token", row.cpu_s * 1e3},
                        {"profile", std::move(profile)}});
        if (!row.energy.empty()) {
            rows.back()["joules_per_token"] = measure::total_joules(row.energy);
            for (const measure::EnergyUse& use : row.energy)
                rows.back()["joules_per_token_by_source"][use.source] = use.joules;
        }
        if (!report.shares[i].devices.empty()) rows.back()["stages"] = to_json(report.shares[i]);
    }
    Json json{{"program", "tandem " TANDEM_VERSION},
              {"model", report.model},
              {"device", report.device.name},
              {"hardware", report.device.hardware},
              {"details", report.device.details},
              {"read_bytes_per_s", report.rates.read_bytes_per_s},
              {"matrix_flops_per_s", report.rates.matrix_flops_per_s},
              {"cache_bytes", report.rates.cache_bytes},
              {"load_s", report.load_s},
              {"repetitions", report.repetitions},
              {"rows", std::move(rows)}};
    for (const measure::AgreementRow& row : report.agreement) {
        json["check"].push_back({{"what", row.what},
                                 {"kl", row.distance.kl},
                                 {"difference", row.distance.difference},
                                 {"same_top", row.distance.same_top},
                                 {"finite", row.distance.finite},
                                 {"ok", report.tolerance.holds(row.distance)}});
    }
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool agrees(const BenchReport& report) {
    return std::all_of(report.agreement.begin(), report.agreement.end(),
                       [&](const measure::AgreementRow& row) { return report.tolerance.holds(row.distance); });
}

}  // namespace tandem::cli
