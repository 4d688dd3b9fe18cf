// The functions behind the families of registry.cpp, each defined in its family's file.
#pragma once

#include "base/result.h"
#include "format/gguf_writer.h"
#include "models/model.h"
#include "models/settings.h"

namespace tandem::models {

Result<Model> load_gemma3(Settings settings);
Status write_gemma3_settings(Settings settings, format::GgufWriter& writer);

Result<Model> load_llama(Settings settings);
Status write_llama_settings(Settings settings, format::GgufWriter& writer);

Result<Model> load_mistral(Settings settings);
Status write_mistral_settings(Settings settings, format::GgufWriter& writer);

Result<Model> load_qwen2(Settings settings);
Status write_qwen2_settings(Settings settings, format::GgufWriter& writer);

Result<Model> load_qwen3(Settings settings);
Status write_qwen3_settings(Settings settings, format::GgufWriter& writer);

}  // namespace tandem::models
