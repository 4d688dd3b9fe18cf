// A mapped file that gets shorter, or whose disk fails, while it is in use: one line that names it, and the end of the
// program, or of its model.
#pragma once

namespace tandem::cli {

// From now on such a file ends the program.
void end_at_file_faults();
// From now on it does not: who reads it finds zeros, and sees by lost_mappings() that they are worth nothing.
void survive_file_faults();

}  // namespace tandem::cli
