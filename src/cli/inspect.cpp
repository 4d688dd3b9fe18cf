#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/model_summary.h"
#include "cli/render.h"
#include "cli/text_output.h"
#include "engine/bundle.h"
#include "user/models.h"

namespace tandem::cli {

namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
    std::string model;
    bool metadata = false;
    bool tensors = false;
    bool graph = false;
    bool json = false;
    RenderOptions render;
};

void print_summary(const ModelSummary& summary) {
    Table table({"name", escape_short(summary.name, 80)});
    table.add({"format", summary.format});
    table.add({"family", summary.family.empty() ? "not named" : escape_short(summary.family, 80)});
    table.add({"parameters", format_count(summary.total.elements)});
    for (const auto& [size_name, size] : summary.sizes) table.add({std::string(size_name), fmt::format("{}", size)});
    table.add({"file size", format_bytes(summary.file_bytes)});
    if (!summary.quantization.empty()) table.add({"quantization", summary.quantization});
    table.add({"bits per weight", fmt::format("{:.2f}", summary.bits_per_weight())});
    print(table.to_string());
}

void print_metadata(const format::Checkpoint& checkpoint) {
    Table table({"KEY", "VALUE"});
    for (const auto& [key, value] : metadata_lines(checkpoint)) table.add({key, value});
    print(table.to_string());
}

// Calls visit(type, tensor) for those that can be used, and then for the others.
template <typename Visit>
void for_each_tensor(const format::Checkpoint& checkpoint, const Visit& visit) {
    for (const format::TensorRecord& tensor : checkpoint.tensors()) visit(name(tensor.dtype), tensor);
    for (const format::ForeignTensor& tensor : checkpoint.foreign_tensors()) visit(tensor.type, tensor);
}

void print_tensors(const format::Checkpoint& checkpoint, const ModelSummary& summary) {
    Table tensors({"TENSOR", "TYPE", "SHAPE", "SIZE"}, {3});
    for_each_tensor(checkpoint, [&](std::string_view type, const auto& tensor) {
        tensors.add({escape_short(tensor.name, 80), std::string(type),
                     fmt::format("[{}]", fmt::join(tensor.shape, ", ")), format_bytes(tensor.data.size())});
    });
    print(tensors.to_string() + "\n");

    Table totals({"TYPE", "TENSORS", "PARAMETERS", "SIZE"}, {1, 2, 3});
    const auto add = [&](std::string_view label, const TypeTotal& total) {
        totals.add({std::string(label), fmt::format("{}", total.tensors), format_count(total.elements),
                    format_bytes(total.size_bytes)});
    };
    for (const auto& [type, total] : summary.by_type) add(type, total);
    add("all", summary.total);
    print(totals.to_string());
}

Json summary_json(const ModelSummary& summary) {
    Json json = {{"name", summary.name}, {"format", summary.format}, {"family", summary.family}};
    json["parameters"] = summary.total.elements;
    for (const auto& [size_name, size] : summary.sizes) {
        std::string key(size_name);
        std::replace(key.begin(), key.end(), ' ', '_');
        json[key] = size;
    }
    json["file_bytes"] = summary.file_bytes;
    json["quantization"] = summary.quantization.empty() ? Json() : Json(summary.quantization);
    json["bits_per_weight"] = summary.bits_per_weight();
    return json;
}

Json tensors_json(const format::Checkpoint& checkpoint) {
    Json list = Json::array();
    for_each_tensor(checkpoint, [&](std::string_view type, const auto& tensor) {
        list.push_back(
            {{"name", tensor.name}, {"type", type}, {"shape", tensor.shape}, {"size_bytes", tensor.data.size()}});
    });
    return list;
}

Json totals_json(const ModelSummary& summary) {
    Json json = Json::object();
    for (const auto& [type, total] : summary.by_type) {
        json[type] = {{"tensors", total.tensors}, {"parameters", total.elements}, {"size_bytes", total.size_bytes}};
    }
    return json;
}

Result<int> inspect(const InspectOptions& options) {
    if (!options.render.messages_file.empty()) {
        print(TRY(render_messages(options.model, options.render)));
        return 0;
    }
    const format::Checkpoint checkpoint = TRY(user::open_checkpoint(options.model));
    const std::string graph = options.graph ? graph::to_string(TRY(models::load(checkpoint)).program) : std::string();
    const ModelSummary summary = summarize(checkpoint);
    const bool all = !options.metadata && !options.tensors && !options.graph;
    if (options.json) {
        Json json = summary_json(summary);
        if (options.metadata || all) json["metadata"] = metadata_json(checkpoint);
        if (options.tensors || all) json["tensors"] = tensors_json(checkpoint);
        if (options.tensors || all) json["totals"] = totals_json(summary);
        if (options.graph) json["graph"] = graph;
        print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
        return 0;
    }
    if (all) print_summary(summary);
    if (all) print("\n");
    if (options.metadata || all) print_metadata(checkpoint);
    if (all) print("\n");
    if (options.tensors || all) print_tensors(checkpoint, summary);
    if (options.graph) print(graph);
    return 0;
}

constexpr const char* kInspectExamples =
    "Without --metadata, --tensors or --graph: a summary, the metadata and the tensors. Only headers are read.\n"
    "MESSAGES.json is a list of messages [{\"role\": \"user\", \"content\": \"Hi\"}], or an object with \"messages\", "
    "\"tools\"\n"
    "and any other variables of the template; - reads it from standard input.\n"
    "\n"
    "Examples:\n"
    "  tandem inspect gemma-3-1b.gguf\n"
    "  tandem inspect gemma-3-1b.gguf --tensors --json\n"
    "  tandem inspect tales --graph\n"
    "  tandem inspect tales --render chat.json\n"
    "  tandem inspect --render chat.json --template my_template.jinja\n";

}  // namespace

Command add_inspect(CLI::App& parent) {
    CLI::App* const app =
        parent.add_subcommand("inspect", "Show what is in a model: metadata, tensors, graph, template");
    const auto options = std::make_shared<InspectOptions>();
    CLI::Option* const model =
        app->add_option("MODEL", options->model, "GGUF file, Hugging Face directory or embedded model")
            ->option_text(" ");
    app->add_flag("--metadata", options->metadata, "Only the metadata");
    app->add_flag("--tensors", options->tensors, "Only the tensors");
    app->add_flag("--graph", options->graph, "Only the Program: what the model computes, op by op");
    app->add_flag("--json", options->json, "Print JSON, with arrays in full");
    CLI::Option* const render = app->add_option("--render", options->render.messages_file,
                                                "Print the prompt that the chat template makes of these messages")
                                    ->option_text("MESSAGES.json");
    CLI::Option* const chat_template =
        app->add_option("--template", options->render.template_file, "Render with this template; MODEL may be left out")
            ->option_text("FILE")
            ->needs(render);
    app->add_flag("--no-generation-prompt", options->render.no_generation_prompt,
                  "Render without the opening of the model's answer")
        ->needs(render);
    app->footer(kInspectExamples);
    app->final_callback([=] {
        if (model->count() == 0 && chat_template->count() == 0) {
            throw CLI::ValidationError("MODEL is missing: " + model->get_description());
        }
    });
    return {app, [options] { return inspect(*options); }};
}

}  // namespace tandem::cli
