// The two halves of the table of filters.
#pragma once

#include "text/jinja/native.h"

namespace tandem::text::jinja {

const Native* find_text_filter(std::string_view name);      // that make text or numbers
const Native* find_sequence_filter(std::string_view name);  // that choose, order and group items

}  // namespace tandem::text::jinja
