// The conversation at a terminal: reads lines and /commands, streams answers, until the user leaves.
#pragma once

#include "base/result.h"
#include "cli/chat.h"
#include "user/settings.h"

namespace tandem::cli {

struct ReplOptions {
    bool quiet = false;    // no closing lines
    bool verbose = false;  // the seed of each answer
    bool shows_markdown = false;
};

// The exit code: not 0 when the last /save failed.
Result<int> run_repl(Chat& chat, user::Settings settings, const ReplOptions& options);

}  // namespace tandem::cli
