// EMBED: puts a file into the program as it is; symbol_begin and symbol_end then bound its bytes.
#pragma once

#include <cstddef>

// The assembler is the one tool that takes a file without first spelling every byte as text.
#define EMBED(symbol, file)                              \
    __asm__(                                             \
        ".section .rodata\n"                             \
        ".balign 64\n" #symbol                           \
        "_begin:\n"                                      \
        ".incbin \"" file "\"\n" #symbol                 \
        "_end:\n"                                        \
        ".byte 0\n"                                      \
        ".previous\n"); /* NOLINT(hicpp-no-assembler) */ \
    extern "C" const std::byte symbol##_begin[];         \
    extern "C" const std::byte symbol##_end[]
