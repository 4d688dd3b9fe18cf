// Ctrl-C: a flag that the signal sets, so that an answer can end early without ending the program.
#pragma once

#include <atomic>

namespace tandem::cli {

enum class SecondInterrupt : unsigned char { ends_program, ignored };

// From now on Ctrl-C (SIGINT) sets the flag. When the program is stuck elsewhere a second one may end it as usual.
void catch_interrupts(SecondInterrupt second);

// The flag, for those who watch it; whoever has dealt with an interrupt clears it.
std::atomic<bool>& interrupt_flag();
bool interrupted();

}  // namespace tandem::cli
