// How values look as text: Python's str(), repr() and json.dumps().
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/jinja/runtime.h"

namespace tandem::text::jinja {

Status append_str(TextBuilder& out, const Value& value);
Status append_repr(TextBuilder& out, const Value& value);

// str(value) as a string value; a string is given back as it is.
Result<Value> to_str(Runtime& rt, const Value& value);

std::string real_repr(double value);            // 1.0, 1e-05, inf
std::string quote_name(std::string_view text);  // repr() of a string, cut to what fits in a message

// The text with < > & ' " written as HTML entities.
std::string escape_html(std::string_view text);

struct JsonStyle {
    bool ensure_ascii = false;
    bool has_indent = false;
    std::string indent;
    std::string item_separator = ", ";
    std::string key_separator = ": ";
    bool sort_keys = false;
};

Status append_json(TextBuilder& out, const Value& value, const JsonStyle& style);

Result<Value> from_json(Runtime& rt, const nlohmann::ordered_json& json);

}  // namespace tandem::text::jinja
