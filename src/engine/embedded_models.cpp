// The models that travel inside the program, put there by the assembler from assets/.
#include "engine/bundle.h"

// NOLINTBEGIN(hicpp-no-assembler,bugprone-reserved-identifier): no other way puts a file into an object as it is
#define EMBED(symbol, file)                                \
    __asm__(                                               \
        ".section .rodata\n"                               \
        ".balign 64\n" #symbol                             \
        "_begin:\n"                                        \
        ".incbin \"" TANDEM_ASSETS "/" file "\"\n" #symbol \
        "_end:\n"                                          \
        ".byte 0\n"                                        \
        ".previous\n");                                    \
    extern "C" const std::byte symbol##_begin[];           \
    extern "C" const std::byte symbol##_end[]
// NOLINTEND(hicpp-no-assembler,bugprone-reserved-identifier)

EMBED(tandem_tales_q8_0, "tales-q8_0.gguf");
EMBED(tandem_tales_f16, "tales-f16.gguf");

namespace tandem::engine {

std::span<const EmbeddedModel> embedded_models() {
    static const EmbeddedModel kModels[] = {
        {"tales", {tandem_tales_q8_0_begin, tandem_tales_q8_0_end}},
        {"tales-f16", {tandem_tales_f16_begin, tandem_tales_f16_end}},
    };
    return kModels;
}

}  // namespace tandem::engine
