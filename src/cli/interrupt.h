// Ctrl-C: a flag that the signal sets, so that an answer can end early without ending the program.
#pragma once

#include <atomic>

namespace tandem::cli {

enum class SecondInterrupt : unsigned char { ends_program, ignored };

// From now on Ctrl-C (SIGINT) sets the flag. When the program is stuck elsewhere a second one may end it as usual.
void catch_interrupts(SecondInterrupt second);

// The flag, for those who watch it.
const std::atomic<bool>& interrupt_flag();
bool interrupted();

// Whether there was an interrupt, which the caller deals with: the flag is clear again.
bool take_interrupt();

// Waits until the file has something to read (or its end, or an error). False: an interrupt came first, be it before
// the waiting began or in another thread.
bool wait_for_input(int file);

}  // namespace tandem::cli
