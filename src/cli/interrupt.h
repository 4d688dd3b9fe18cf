// Ctrl-C: a flag that the signal sets, so that work can end early and in order without ending the program.
#pragma once

#include <atomic>

namespace tandem::cli {

enum class SecondInterrupt : unsigned char { ends_program, ignored };

// From now on Ctrl-C (SIGINT) sets the flag. When the program is stuck elsewhere a second one may end it as usual.
void catch_interrupts(SecondInterrupt second);

// The same of all that ask the program to end: Ctrl-C, SIGTERM and SIGHUP. A second one ends it as usual.
void catch_endings();
// After an interrupt: 128 + the number of the signal, as shells have it.
int interrupt_exit_code();

// The flag, for those who watch it.
const std::atomic<bool>& interrupt_flag();
bool interrupted();

// Whether there was an interrupt, which the caller deals with: the flag is clear again.
bool take_interrupt();

// Waits until the file has something to read (or its end, or an error). An interrupt or a call of wake_waiting() ends
// the waiting too, be it before it began or in another thread.
enum class Waited : unsigned char { input, interrupted, woken };
Waited wait_for_input(int file);

// For signal handlers of others.
void wake_waiting();

}  // namespace tandem::cli
