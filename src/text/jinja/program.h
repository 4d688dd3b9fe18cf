// A parsed template, and its rendering.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/limits.h"

namespace tandem::text::jinja {

class Program {
  public:
    static Result<Program> parse(std::string source);

    const std::string& source() const { return source_; }
    const ast::Block& body() const { return body_; }
    const std::vector<std::string>& names() const { return names_; }

    // The id of a name the template mentions.
    std::optional<ast::NameId> find_name(std::string_view name) const;
    // The same, made if need be. For the parser.
    ast::NameId intern(std::string_view name);

  private:
    std::string source_;
    ast::Block body_;
    std::vector<std::string> names_;
    std::unordered_map<std::string, ast::NameId> ids_;
};

// The variables of a rendering, in order: a later one hides an earlier one of the same name.
using Variables = std::vector<std::pair<std::string, const nlohmann::ordered_json*>>;

struct RenderOptions {
    Limits limits;
    std::optional<std::chrono::system_clock::time_point> now;  // unset: the clock
};

Result<std::string> render(const Program& program, const Variables& variables, const RenderOptions& options);

}  // namespace tandem::text::jinja
