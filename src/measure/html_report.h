// A saved run as one page of HTML that needs nothing else: charts with their units, and shares of the machine's limit.
#pragma once

#include <string>

#include "measure/saved_run.h"

namespace tandem::measure {

std::string html_report(const SavedRun& run);

// Tokens a second that memory and matrix units allow, whichever allows less; 0: neither is known to limit it.
double limit_tokens_per_s(const SavedRun& run, const SavedRow& row);

}  // namespace tandem::measure
