// A mapped file that gets shorter, or whose disk fails, while it is in use: one line that names it, and the end.
#pragma once

namespace tandem::cli {

// From now on. (The system tells by the signal SIGBUS, at whatever instruction reads the missing page: there is nothing
// to go back to.)
void explain_file_faults();

}  // namespace tandem::cli
