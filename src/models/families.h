// The families of models, each defined in the file of its name (qwen2 and qwen3 in qwen.cpp).
#pragma once

#include "models/family.h"

namespace tandem::models {

const Family& gemma3();
const Family& llama();
const Family& mistral();
const Family& qwen2();
const Family& qwen3();

}  // namespace tandem::models
