// The model that travels inside the program.
#include "base/embed.h"
#include "engine/bundle.h"

EMBED(tandem_tales_q8_0, TANDEM_ASSETS "/tales-q8_0.gguf");

namespace tandem::engine {

std::span<const EmbeddedModel> embedded_models() {
    static const EmbeddedModel models[] = {
        {"tales", {tandem_tales_q8_0_begin, tandem_tales_q8_0_end}},
    };
    return models;
}

}  // namespace tandem::engine
