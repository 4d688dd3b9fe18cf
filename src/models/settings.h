// Settings: a model's hyperparameters by name, from the metadata of a GGUF file or from config.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/checkpoint.h"

namespace tandem::models {

// One hyperparameter under both its names. `gguf` is without the architecture ("block_count"), `hf` may be a path
// into nested objects ("rope_parameters.rope_theta"). An empty name: the format has no such key.
struct Key {
    std::string_view gguf;
    std::string_view hf;
};

struct Range {
    double least;
    double most;
};

// The first problem sticks; later reads give their fallback, so a reader reads on and asks for status() at the end.
class Settings {
  public:
    // `architecture` is general.architecture, the first part of a GGUF file's keys. The checkpoint must outlive this.
    Settings(const format::Checkpoint& checkpoint, std::string architecture);

    bool is_gguf() const { return config_ == nullptr; }
    const std::string& architecture() const { return architecture_; }
    const format::Checkpoint& checkpoint() const { return *checkpoint_; }

    // config.json may say null on purpose: such a key is there but has no value.
    bool is_there(const Key& key) const;
    bool has_value(const Key& key) const;

    // Without a fallback the key must be there. A count is a whole number from 1 to `limit`.
    int count(const Key& key, int limit, std::optional<int> fallback = {});
    double real(const Key& key, Range range, std::optional<double> fallback = {});
    bool flag(const Key& key, bool fallback);
    std::string text(const Key& key, std::string_view fallback);

    // A list of either, of config.json, of a GGUF file: that there is none is a problem too.
    bool is_list(const Key& key) const;
    std::vector<double> reals(const Key& key, Range range);
    std::vector<std::string> texts(std::string_view hf);
    std::vector<double> numbers(std::string_view hf);
    std::vector<bool> flags(std::string_view gguf);

    // Notes a problem of the caller's finding, under the checkpoint's name.
    void reject(std::string_view problem);
    Status status() const;

  private:
    const nlohmann::json* find_json(std::string_view path) const;
    const format::GgufValue* find_gguf(std::string_view key) const;
    std::optional<double> number(const Key& key, bool required);
    std::string describe(const Key& key) const;

    const format::Checkpoint* checkpoint_;
    std::string architecture_;
    const nlohmann::json* config_ = nullptr;  // config.json
    const nlohmann::json* text_ = nullptr;    // its text_config, where the model has more than text; else the same
    std::string error_;
};

}  // namespace tandem::models
