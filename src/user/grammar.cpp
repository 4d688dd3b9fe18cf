#include "user/grammar.h"

#include "base/file.h"
#include "text/grammar/limits.h"
#include "user/paths.h"

namespace tandem::user {

namespace {

bool is_schema(std::string_view text) {
    const size_t begin = text.find_first_not_of(" \t\r\n");
    return begin != std::string_view::npos && text[begin] == '{';  // which no rule of GBNF begins with
}

}  // namespace

Result<text::CompiledGrammarPtr> read_grammar(std::string_view value) {
    if (value == "json") return text::compile_json_object();
    if (is_schema(value)) return text::compile_json_schema(value);
    if (value.find("::=") != std::string_view::npos) return text::compile_gbnf(value);
    const std::string source = TRY(read_text_file(expand_home(value), text::grammar::kMaxSourceBytes));
    auto grammar = is_schema(source) ? text::compile_json_schema(source) : text::compile_gbnf(source);
    if (!grammar) return fail("{}: {}", value, grammar.error().message);
    return grammar;
}

}  // namespace tandem::user
