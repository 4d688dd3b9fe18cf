// The families of models, each defined in the file of its name (qwen2 and qwen3 in qwen.cpp, those with experts in
// qwen_moe.cpp).
#pragma once

#include "models/family.h"

namespace tandem::models {

const Family& gemma3();
const Family& glm4_moe();
const Family& gpt_oss();
const Family& llama();
const Family& mistral();
const Family& mixtral();
const Family& qwen2();
const Family& qwen2_moe();
const Family& qwen3();
const Family& qwen3_moe();

}  // namespace tandem::models
