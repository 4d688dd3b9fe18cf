// The families of models, each defined in the file of its name (gemma2 and gemma3 in gemma.cpp, ministral3 in
// mistral.cpp, qwen2 and qwen3 in qwen.cpp, those with experts in qwen_moe.cpp).
#pragma once

#include "models/family.h"

namespace tandem::models {

const Family& gemma2();
const Family& gemma3();
const Family& gemma4();
const Family& glm4_moe();
const Family& gpt_oss();
const Family& granite();
const Family& llama();
const Family& ministral3();
const Family& mistral();
const Family& mixtral();
const Family& olmo2();
const Family& phi3();
const Family& qwen2();
const Family& qwen2_moe();
const Family& qwen3();
const Family& qwen3_moe();
const Family& smollm3();

}  // namespace tandem::models
