#include "cli/plan_report.h"

#include <nlohmann/json.hpp>

#include "cli/text_output.h"

namespace tandem::cli {

namespace {

using Json = nlohmann::ordered_json;

std::string json_text(const Json& json) {
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

struct NamedFigure {
    const char* name;
    const char* unit;
    plan::Figure plan::KnownMachine::*figure;
};
constexpr NamedFigure kFigures[] = {{"memory", "GB", &plan::KnownMachine::memory_gb},
                                    {"reads", "GB/s", &plan::KnownMachine::read_gb_per_s},
                                    {"share of that", "", &plan::KnownMachine::read_share},
                                    {"multiplies", "TFLOP/s", &plan::KnownMachine::matrix_tflops},
                                    {"share of that", "", &plan::KnownMachine::matrix_share},
                                    {"dispatch", "us", &plan::KnownMachine::dispatch_us},
                                    {"growth of that", "us", &plan::KnownMachine::growth_us},
                                    {"attention", "us", &plan::KnownMachine::attention_us}};

std::string sequences_text(int sequences) {
    return fmt::format("{} sequence{}", sequences, sequences == 1 ? "" : "s");
}

std::string work_text(const PlanLine& line) {
    if (line.sequences == 0) return fmt::format("prompt of {}", line.length);
    return fmt::format("decode, {}, context {}", sequences_text(line.sequences), line.length);
}

std::string context_text(int context) {
    return context == 0 ? "none" : std::to_string(context);
}

std::string heading(const PlanReport& report) {
    std::string text =
        fmt::format("{} ({}) on {}: {}\n", report.model, report.what, report.machine.name, report.machine.title);
    if (report.machine.known != nullptr)
        return text + "A forecast by figures of others (--machine list says which): nothing of it was measured.\n\n";
    return text + "A forecast by what was measured of its devices; the model itself did not run.\n\n";
}

std::string fits_table(const PlanReport& report) {
    Table table({"DEVICE", "SEQUENCES", "WEIGHTS", "CACHE", "WORK", "IN ALL", "HAS FREE", "FITS", "LONGEST CONTEXT"},
                {1, 2, 3, 4, 5, 6, 8});
    for (const PlanFit& fit : report.fits) {
        table.add({fit.device, std::to_string(fit.sequences), format_bytes(fit.need.weight_bytes),
                   format_bytes(fit.need.cache_bytes), format_bytes(fit.need.work_bytes),
                   format_bytes(fit.need.total()), format_bytes(fit.room_bytes), fit.fits() ? "yes" : "no",
                   context_text(fit.longest_context)});
    }
    return table.to_string() +
           fmt::format("with a context of {} for each, a cache of {}; the longest context is for as many sequences\n\n",
                       report.shape.context, name(report.shape.kv_dtype));
}

std::string lines_table(const PlanReport& report) {
    Table table({"DEVICE", "WORK", "TOKENS/S", "EACH", "AT MOST", "SHARE", "TIME", "MOST TIME GOES TO"},
                {2, 3, 4, 5, 6});
    for (const PlanLine& line : report.lines) {
        const plan::Forecast& forecast = line.forecast;
        const bool known = forecast.limit_s > 0;
        table.add({line.device, work_text(line), format_rate(forecast.tokens_per_s()),
                   line.sequences > 1 ? format_rate(forecast.tokens_per_s() / line.sequences) : "",
                   known ? format_rate(forecast.most_tokens_per_s()) : "-",
                   known ? fmt::format("{:.0f} %", 100 * forecast.limit_s / forecast.seconds) : "-",
                   format_seconds(forecast.seconds), std::string(forecast.limited_by())});
    }
    return table.to_string() +
           "AT MOST: if memory were read, or matrices multiplied, at the device's full rate and nothing else took "
           "time;\nwhat fits the caches is not limited by memory\n\n";
}

std::string types_table(const PlanReport& report) {
    if (report.types.empty()) return {};
    Table table({"TYPE", "WEIGHTS", "IN ALL", "LONGEST CONTEXT", "TOKENS/S"}, {1, 2, 3, 4});
    for (const PlanType& type : report.types) {
        table.add({type.type, format_bytes(type.need.weight_bytes), format_bytes(type.need.total()),
                   context_text(type.longest_context), format_rate(type.tokens_per_s)});
    }
    return fmt::format("All matrices in one type, {}, one sequence:\n", report.fits.front().device) +
           table.to_string() + "\n";
}

std::string target_text(const PlanReport& report) {
    if (!report.target) return {};
    const PlanTarget& target = *report.target;
    const std::string& device = report.fits.front().device;
    const double limit = target.alone.most_tokens_per_s();
    std::string text = fmt::format("What {} tokens/s would take on {}:\n", target.tokens_per_s, device);
    if (target.alone.tokens_per_s() >= target.tokens_per_s) {
        return text + fmt::format("- nothing more: one sequence has {}\n", format_rate(target.alone.tokens_per_s()));
    }
    const double bytes = target.alone.weight_bytes + target.alone.cache_bytes;
    text += fmt::format(
        "- one sequence: no, it has {} and at most {}: a token reads {:.1f} GB, so that {} tokens/s are {:.0f} GB/s, "
        "{:.1f} times\n  what {} reads\n",
        format_rate(target.alone.tokens_per_s()), format_rate(limit), bytes / 1e9, target.tokens_per_s,
        bytes * target.tokens_per_s / 1e9,
        bytes * target.tokens_per_s / report.machine.devices.front().speeds.rates.read_bytes_per_s, device);
    const double times = target.tokens_per_s / target.alone.tokens_per_s();
    text += fmt::format("- fewer bits: {:.2g} for a weight, which has {:.2g}\n", target.bits_per_weight / times,
                        target.bits_per_weight);
    text +=
        fmt::format("- guessing ahead: {:.1f} tokens for each reading of the weights (run --lookup, --draft)\n", times);
    if (target.sequences > 0) {
        text += fmt::format("- many at once: {} have {} together, {} each\n", sequences_text(target.sequences),
                            format_rate(target.together_per_s), format_rate(target.together_per_s / target.sequences));
    } else {
        text += fmt::format("- many at once: no, {} have {} together\n", sequences_text(target.most_sequences),
                            format_rate(target.most_together_per_s));
    }
    return text + fmt::format("- another machine, for one sequence: {}\n",
                              target.machines.empty() ? "none of --machine list"
                                                      : fmt::format("{}", fmt::join(target.machines, ", ")));
}

Json figure_json(const plan::Figure& figure) {
    return {{"value", figure.value}, {"origin", name(figure.origin)}, {"source", figure.source}};
}

Json need_json(const engine::MemoryNeed& need) {
    return {{"weight_bytes", need.weight_bytes},
            {"cache_bytes", need.cache_bytes},
            {"work_bytes", need.work_bytes},
            {"total_bytes", need.total()}};
}

Json fits_json(const PlanReport& report) {
    Json list = Json::array();
    for (const PlanFit& fit : report.fits) {
        Json each = {{"device", fit.device}, {"sequences", fit.sequences}};
        each.update(need_json(fit.need));
        each["room_bytes"] = fit.room_bytes;
        each["fits"] = fit.fits();
        each["longest_context"] = fit.longest_context;
        list.push_back(std::move(each));
    }
    return list;
}

Json line_json(const PlanLine& line) {
    const plan::Forecast& forecast = line.forecast;
    const bool decode = line.sequences > 0;
    return {{"device", line.device},
            {"kind", decode ? "decode" : "prompt"},
            {"sequences", decode ? line.sequences : 1},
            {decode ? "context" : "prompt", line.length},
            {"tokens_per_s", forecast.tokens_per_s()},
            {"at_most_tokens_per_s", forecast.limit_s > 0 ? Json(forecast.most_tokens_per_s()) : Json()},
            {"seconds", forecast.seconds},
            {"limited_by", forecast.limited_by()},
            {"seconds_by_part",
             {{"reading_weights", forecast.reading_s},
              {"matrix_products", forecast.computing_s},
              {"attention", forecast.attention_s},
              {"activations", forecast.activation_s},
              {"dispatches", forecast.dispatch_s}}},
            {"weight_bytes", forecast.weight_bytes},
            {"cache_bytes", forecast.cache_bytes},
            {"product_flops", forecast.product_flops}};
}

Json target_json(const PlanTarget& target) {
    return {{"tokens_per_s", target.tokens_per_s},
            {"one_sequence_tokens_per_s", target.alone.tokens_per_s()},
            {"one_sequence_at_most", target.alone.most_tokens_per_s()},
            {"sequences", target.sequences > 0 ? Json(target.sequences) : Json()},
            {"together_tokens_per_s", target.sequences > 0 ? target.together_per_s : target.most_together_per_s},
            {"machines", target.machines}};
}

Json machine_json(const PlanMachine& machine) {
    Json json = {{"name", machine.name}, {"title", machine.title}};
    if (machine.known == nullptr) return json;
    for (const NamedFigure& each : kFigures) {
        const std::string key = each.unit[0] == 0 ? "share" : fmt::format("{} {}", each.name, each.unit);
        json["figures"].push_back({{key, figure_json(machine.known->*each.figure)}});
    }
    return json;
}

Json alone_json(const std::vector<AloneRow>& rows) {
    Json list = Json::array();
    for (const AloneRow& row : rows)
        list.push_back({{"prompt", row.prompt},
                        {"policy", plan::name(row.policy)},
                        {"prompt_tokens_per_s", row.prompt / row.prompt_s},
                        {"prompt_joules_per_token", row.prompt_j},
                        {"answer_tokens_per_s", 1 / row.token_s},
                        {"answer_joules_per_token", row.token_j},
                        {"cpu_busy_s_per_token", row.cpu_busy_s}});
    return list;
}

void add_placements(const PlanReport& report, Json& json) {
    Json list = Json::array();
    for (const PlanRow& row : report.placements->rows) {
        list.push_back({{"prompt", row.prompt},
                        {"policy", plan::name(row.policy)},
                        {"placement", plan::name(row.placement.policy)},
                        {"npu_layers", row.placement.npu_layers},
                        {"seconds", row.seconds},
                        {"seconds_low", row.low_s},
                        {"seconds_high", row.high_s},
                        {"tokens_per_s", row.tokens_per_s()},
                        {"gpu_busy_s", row.main_busy_s},
                        {"npu_busy_s", row.npu_busy_s},
                        {"memory_bytes", row.memory_bytes}});
    }
    json["gpu_tflops"] = report.question.gpu.matrix_flops_per_s / 1e12;
    json["gpu_gb_per_s"] = report.question.gpu.read_bytes_per_s / 1e9;
    json["npu"] = report.question.array;
    json["left_to_gpu"] = report.placements->left;
    json["prompts"] = std::move(list);
    json["gpu_watts"] = report.question.gpu_watts;
    json["npu_watts"] = report.question.npu_watts;
    json["alone"] = alone_json(report.placements->alone);
}

Json clusters_json(const PlanReport& report) {
    Json list = Json::array();
    for (const ClusterLine& line : report.clusters) {
        Json points = Json::array();
        for (const ClusterPoint& point : line.points) {
            points.push_back({{"machines", point.machines},
                              {"layers", point.most_layers},
                              {"memory_bytes", point.most_bytes},
                              {"micro_batches", point.forecast.micro_batches},
                              {"tokens_per_s", point.forecast.tokens_per_s()},
                              {"busy_s", point.forecast.busy_s},
                              {"bubble", point.forecast.bubble()},
                              {"wire_bytes_per_token", point.forecast.wire_bytes / point.forecast.tokens},
                              {"efficiency", point.efficiency},
                              {"pays", point.pays}});
        }
        const bool decode = line.sequences > 0;
        list.push_back({{"link", line.link},
                        {"kind", decode ? "decode" : "prompt"},
                        {"sequences", decode ? line.sequences : 1},
                        {decode ? "context" : "prompt", decode ? report.shape.context : report.cluster.prompt},
                        {"pays_up_to", line.pays_up_to()},
                        {"points", std::move(points)}});
    }
    return list;
}

}  // namespace

std::string to_text(const PlanReport& report) {
    if (!report.clusters.empty()) return heading(report) + to_text(report.cluster, report.clusters);
    std::string text = heading(report) + fits_table(report) + lines_table(report) + types_table(report);
    text += target_text(report);
    if (report.placements) {
        if (report.target) text += "\n";
        text += to_text(report.question, *report.placements);
    }
    return text;
}

std::string to_json(const PlanReport& report) {
    Json lines = Json::array();
    for (const PlanLine& line : report.lines) lines.push_back(line_json(line));
    Json types = Json::array();
    for (const PlanType& type : report.types) {
        Json each = {{"type", type.type}};
        each.update(need_json(type.need));
        each["longest_context"] = type.longest_context;
        each["tokens_per_s"] = type.tokens_per_s;
        types.push_back(std::move(each));
    }
    Json json = {{"model", report.model},
                 {"predicted", true},
                 {"machine", machine_json(report.machine)},
                 {"context", report.shape.context},
                 {"trained_context", report.trained_context},

                 {"kv", name(report.shape.kv_dtype)},
                 {"memory", fits_json(report)},
                 {"forecasts", std::move(lines)},
                 {"types", std::move(types)},
                 {"target", report.target ? target_json(*report.target) : Json()}};
    if (report.placements) add_placements(report, json);
    if (!report.clusters.empty()) json["clusters"] = clusters_json(report);
    return json_text(json);
}

std::string machines_text() {
    std::string text;
    for (const plan::KnownMachine& machine : plan::known_machines()) {
        text += fmt::format("{}: {}\n", machine.name, machine.title);
        Table table({"  ", "", "", ""}, {1});
        for (const NamedFigure& each : kFigures) {
            const plan::Figure& figure = machine.*each.figure;
            const bool share = each.unit[0] == 0;
            table.add({fmt::format("  {}", each.name),
                       share ? fmt::format("{:.0f} %", 100 * figure.value)
                             : fmt::format("{} {}", format_rate(figure.value), each.unit),
                       std::string(name(figure.origin)), std::string(figure.source)});
        }
        const std::string lines = table.to_string();
        text += lines.substr(lines.find('\n') + 1) + "\n";
    }
    text += "here: this machine, as measured (tandem doctor)\n\n";
    for (const plan::Link& link : plan::known_links()) {
        text += fmt::format("--link {}: {}; {} MB/s ({}: {}), a hop of {} us ({}: {})\n", link.name, link.title,
                            link.mb_per_s.value, name(link.mb_per_s.origin), link.mb_per_s.source, link.hop_us.value,
                            name(link.hop_us.origin), link.hop_us.source);
    }
    return text;
}

std::string machines_json() {
    Json list = Json::array();
    for (const plan::KnownMachine& machine : plan::known_machines()) {
        list.push_back(machine_json({.name = std::string(machine.name),
                                     .title = std::string(machine.title),
                                     .known = &machine,
                                     .devices = {},
                                     .npu = std::string(machine.npu)}));
    }
    Json links = Json::array();
    for (const plan::Link& link : plan::known_links()) {
        links.push_back({{"name", link.name},
                         {"title", link.title},
                         {"mb_per_s", figure_json(link.mb_per_s)},
                         {"hop_us", figure_json(link.hop_us)}});
    }
    return json_text({{"machines", std::move(list)}, {"links", std::move(links)}});
}

}  // namespace tandem::cli
