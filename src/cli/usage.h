// What is wrong with a command line, in one line: the thing, and what it should have been.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tandem::cli {

// "pul: no such command; did you mean 'plan'? (see tandem --help)". `root` is the parser that threw the error.
std::string explain_usage(const CLI::App& root, const CLI::ParseError& error);

}  // namespace tandem::cli
