#include "measure/saved_run.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "format/json.h"

namespace tandem::measure {

namespace {

using SavedJson = nlohmann::json;

constexpr double kMost = 1e18;  // of any figure: nothing overflows later

// The fields of one object, with the first that is wrong.
class Fields {
  public:
    explicit Fields(const SavedJson& object) : object_(object) {
        if (!object.is_object()) wrong_ = "a row is no object";
    }

    // 0 or more.
    double number(const char* name) {
        const auto found = find(name);
        if (found == nullptr || !found->is_number()) return note_wrong(name), 0;
        const auto value = found->get<double>();
        if (!std::isfinite(value) || value < 0 || value > kMost) return note_wrong(name), 0;
        return value;
    }
    int count(const char* name) {
        const double value = number(name);
        if (value != std::floor(value) || value > 1e9) return note_wrong(name), 0;
        return static_cast<int>(value);
    }
    std::string text(const char* name) {
        const auto found = find(name);
        if (found == nullptr || !found->is_string()) return note_wrong(name), std::string();
        return found->get<std::string>();
    }
    const SavedJson& array(const char* name) {
        static const SavedJson kNone = SavedJson::array();
        const auto found = find(name);
        if (found == nullptr || !found->is_array()) return note_wrong(name), kNone;
        return *found;
    }
    bool has(const char* name) const {
        const auto found = find(name);
        return found != nullptr && !found->is_null();
    }

    Status status(const std::string& source) const {
        if (wrong_.empty()) return Ok{};
        return fail("{}: is no run that `tandem bench --json` of this version saved: {}", source, wrong_);
    }
    void note_wrong(const char* name) {
        if (wrong_.empty()) wrong_ = fmt::format("'{}' is missing or no such value", name);
    }

  private:
    const SavedJson* find(const char* name) const {
        if (!object_.is_object()) return nullptr;
        const auto found = object_.find(name);
        return found == object_.end() ? nullptr : &*found;
    }

    const SavedJson& object_;
    std::string wrong_;
};

Result<SavedStage> stage_from(const SavedJson& json, const std::string& source) {
    Fields fields(json);
    SavedStage stage{.name = fields.text("name"),
                     .count = fields.count("count"),
                     .seconds = fields.number("us") * 1e-6,
                     .weight_bytes = fields.number("weight_bytes")};
    TRY(fields.status(source));
    return stage;
}

Result<SavedRow> row_from(const SavedJson& json, const std::string& source) {
    Fields fields(json);
    SavedRow row;
    row.is_prompt = fields.text("kind") == "prompt";
    row.sequences = fields.count("sequences");
    row.length = fields.count(row.is_prompt ? "prompt" : "context");
    row.tokens_per_s = fields.number("tokens_per_s");
    row.seconds = fields.number("ms") * 1e-3;
    row.bytes = fields.number("bytes");
    row.flops = fields.number("flops");
    row.fits_caches = json.is_object() && json.value("fits_caches", SavedJson(false)) == true;
    if (fields.has("joules_per_token")) row.joules_per_token = fields.number("joules_per_token");
    for (const SavedJson& sample : fields.array("ms_each")) {
        const bool is_time = sample.is_number() && std::isfinite(sample.get<double>()) && sample.get<double>() > 0;
        if (!is_time) fields.note_wrong("ms_each");
        if (is_time) row.samples_s.push_back(sample.get<double>() * 1e-3);
    }
    if (row.samples_s.empty() || row.seconds <= 0) fields.note_wrong("ms_each");
    TRY(fields.status(source));
    for (const SavedJson& stage : fields.array("profile")) row.profile.push_back(TRY(stage_from(stage, source)));
    TRY(fields.status(source));
    return row;
}

}  // namespace

std::string SavedRow::name() const {
    if (is_prompt) return fmt::format("prompt of {}", length);
    return fmt::format("decode, {} sequence{}, context {}", sequences, sequences == 1 ? "" : "s", length);
}

Result<SavedRun> parse_saved_run(std::string_view json, const std::string& source) {
    const SavedJson parsed = TRY(format::parse_json(std::string(json), source));
    Fields fields(parsed);
    SavedRun run{.source = source,
                 .program = fields.text("program"),
                 .model = fields.text("model"),
                 .device = fields.text("device"),
                 .hardware = fields.text("hardware"),
                 .details = fields.text("details"),
                 .read_bytes_per_s = fields.number("read_bytes_per_s"),
                 .matrix_flops_per_s = fields.number("matrix_flops_per_s"),
                 .rows = {}};
    const SavedJson& rows = fields.array("rows");
    TRY(fields.status(source));
    for (const SavedJson& row : rows) run.rows.push_back(TRY(row_from(row, source)));
    return run;
}

Result<SavedRun> read_saved_run(const std::filesystem::path& file) {
    const std::string text = TRY(read_text_file(file, size_t{64} << 20));
    return parse_saved_run(text, file.string());
}

}  // namespace tandem::measure
