// The models that travel inside the program.
#include "base/embed.h"
#include "engine/bundle.h"

EMBED(tandem_tales_q8_0, TANDEM_ASSETS "/tales-q8_0.gguf");
EMBED(tandem_tales_f16, TANDEM_ASSETS "/tales-f16.gguf");

namespace tandem::engine {

std::span<const EmbeddedModel> embedded_models() {
    static const EmbeddedModel models[] = {
        {"tales", {tandem_tales_q8_0_begin, tandem_tales_q8_0_end}},
        {"tales-f16", {tandem_tales_f16_begin, tandem_tales_f16_end}},
    };
    return models;
}

}  // namespace tandem::engine
