// The tokenizer of a Hugging Face directory as metadata of a GGUF file.
#pragma once

#include "base/result.h"
#include "format/checkpoint.h"
#include "format/gguf_writer.h"

namespace tandem::cli {

// Adds tokens, merges or scores, special tokens and the chat template; false when the directory has no tokenizer.
// `vocab` is what the model has rows for; what the tokenizer does not fill is marked as unused.
Result<bool> add_tokenizer_metadata(const format::Checkpoint& checkpoint, int vocab, format::GgufWriter& writer);

}  // namespace tandem::cli
