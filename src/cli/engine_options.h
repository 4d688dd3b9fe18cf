// The options of commands that run a model: device, context, cache type, guessing ahead.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/engine.h"
#include "measure/scorer.h"
#include "user/devices.h"

namespace CLI {
class App;
}

namespace tandem::cli {

struct EngineChoice {
    user::DeviceOptions device;
    int context = 0;
    std::string kv;
    bool lookup = false;
    std::string draft;  // a model; empty: none
};

// --kv, the type of the key-value cache; none: what suits the model.
void add_kv_option(CLI::App& app, std::string& kv);
std::optional<DType> kv_dtype_of(const std::string& kv);

// Adds --context and --kv to the options of add_device_options().
void add_engine_options(CLI::App& app, EngineChoice& options);

// --lookup and --draft.
void add_guessing_options(CLI::App& app, EngineChoice& options);

// For one conversation. The draft model is for the caller to open.
engine::EngineOptions engine_options(const EngineChoice& choice);
Result<std::unique_ptr<measure::Scorer>> open_scorer(const models::Model& model, device::Backend& backend,
                                                     const EngineChoice& options);

}  // namespace tandem::cli
