#include "text/jinja/program.h"

#include "text/jinja/parser.h"

namespace tandem::text::jinja {

Result<Program> Program::parse(std::string source) {
    Program program;
    program.source_ = std::move(source);
    std::vector<Token> tokens = TRY(tokenize(program.source_));
    program.body_ = TRY(Parser(std::move(tokens), program).parse());
    return program;
}

std::optional<ast::NameId> Program::find_name(std::string_view name) const {
    auto it = ids_.find(std::string(name));
    return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

ast::NameId Program::intern(std::string_view name) {
    auto [it, added] = ids_.emplace(std::string(name), static_cast<ast::NameId>(names_.size()));
    if (added) names_.emplace_back(name);
    return it->second;
}

}  // namespace tandem::text::jinja
