#include "text/grammar/gbnf.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "text/grammar/limits.h"
#include "text/utf8.h"

namespace tandem::text::grammar {

namespace {

bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

std::optional<uint32_t> hex_value(std::string_view digits) {
    uint32_t value = 0;
    for (const char c : digits) {
        uint32_t digit = 0;
        if (c >= '0' && c <= '9')
            digit = static_cast<uint32_t>(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = static_cast<uint32_t>(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            digit = static_cast<uint32_t>(c - 'A' + 10);
        else
            return std::nullopt;
        value = value * 16 + digit;
    }
    return value;
}

class GbnfParser {
  public:
    explicit GbnfParser(std::string_view text) : text_(text) {}

    Result<Grammar> parse() {
        skip_space(true);
        while (!at_end()) TRY(parse_rule());
        for (const auto& use : first_uses_) {
            if (!grammar_.is_defined(use.rule)) {
                return fail("grammar, line {}: the rule '{}' is not defined", line_of(use.pos),
                            grammar_.rules()[use.rule].name);
            }
        }
        const auto root = names_.find("root");
        if (root == names_.end()) return fail("grammar: there is no rule 'root'");
        grammar_.set_root(root->second);
        return std::move(grammar_);
    }

  private:
    struct Use {
        RuleId rule = 0;
        size_t pos = 0;
    };

    struct Bounds {
        uint32_t min = 0;
        uint32_t max = 0;
    };

    bool at_end() const { return pos_ >= text_.size(); }
    char current() const { return at_end() ? '\0' : text_[pos_]; }
    bool is_next(std::string_view what) const { return text_.substr(pos_).starts_with(what); }

    Error error(std::string_view message) const { return fail("grammar, line {}: {}", line_of(pos_), message); }

    int line_of(size_t pos) const {
        const std::string_view before = text_.substr(0, pos);
        return static_cast<int>(1 + std::count(before.begin(), before.end(), '\n'));
    }

    void skip_space(bool over_lines) {
        while (!at_end()) {
            const char c = current();
            if (c == '#') {
                while (!at_end() && current() != '\n' && current() != '\r') ++pos_;
            } else if (c == ' ' || c == '\t' || (over_lines && (c == '\n' || c == '\r'))) {
                ++pos_;
            } else {
                return;
            }
        }
    }

    Result<std::string> parse_name() {
        const size_t begin = pos_;
        while (!at_end() && is_name_character(current())) ++pos_;
        if (pos_ == begin) return error("expected the name of a rule");
        return std::string(text_.substr(begin, pos_ - begin));
    }

    RuleId rule_of(const std::string& name) {
        const auto known = names_.find(name);
        if (known != names_.end()) return known->second;
        const RuleId rule = grammar_.add_rule(name);
        names_.emplace(name, rule);
        return rule;
    }

    Status parse_rule() {
        const std::string name = TRY(parse_name());
        skip_space(false);
        if (!is_next("::=")) return error("expected ::= after the name of a rule");
        pos_ += 3;
        skip_space(true);
        const RuleId rule = rule_of(name);
        if (grammar_.is_defined(rule)) return error(fmt::format("the rule '{}' is defined twice", name));
        grammar_.define(rule, TRY(parse_alternatives(0)));
        if (!at_end() && current() != '\n' && current() != '\r') {
            const auto byte = static_cast<unsigned char>(current());
            const bool printable = byte > ' ' && byte < 0x7f;
            return error(printable ? fmt::format("unexpected character '{}'", current())
                                   : fmt::format("unexpected byte 0x{:02x}", byte));
        }
        skip_space(true);
        return Ok{};
    }

    Result<NodeId> parse_alternatives(int depth) {
        if (depth > kMaxNesting) return error(fmt::format("groups are nested deeper than {} levels", kMaxNesting));
        std::vector<NodeId> options = {TRY(parse_sequence(depth))};
        while (current() == '|') {
            ++pos_;
            skip_space(true);
            options.push_back(TRY(parse_sequence(depth)));
        }
        return grammar_.choice(options);
    }

    Result<NodeId> parse_sequence(int depth) {
        std::vector<NodeId> parts;
        while (!at_end()) {
            if (grammar_.full()) return error("the grammar is too large: use fewer or smaller rules");
            const auto part = TRY(parse_part(depth));
            if (!part) break;
            skip_space(depth > 0);
            NodeId repeated = *part;
            int bounds_count = 0;
            for (auto bounds = TRY(parse_bounds()); bounds; bounds = TRY(parse_bounds())) {
                if (++bounds_count > 8) return error("too many repetitions of a repetition");
                repeated = grammar_.repeat(repeated, bounds->min, bounds->max);
                skip_space(depth > 0);
            }
            parts.push_back(repeated);
        }
        return grammar_.sequence(parts);
    }

    Result<std::optional<NodeId>> parse_part(int depth) {
        const char c = current();
        if (c == '"') return std::optional(TRY(parse_literal()));
        if (c == '[') return std::optional(TRY(parse_class()));
        if (c == '.') {
            ++pos_;
            return std::optional(grammar_.characters(CodePoints::all()));
        }
        if (c == '(') {
            ++pos_;
            skip_space(true);
            const NodeId group = TRY(parse_alternatives(depth + 1));
            if (current() != ')') return error("expected ) at the end of a group");
            ++pos_;
            return std::optional(group);
        }
        if (is_name_character(c) && c != '\0') {
            const std::string name = TRY(parse_name());
            const bool is_first = !names_.contains(name);
            const RuleId rule = rule_of(name);
            if (is_first) first_uses_.push_back({rule, pos_});
            return std::optional(grammar_.use(rule));
        }
        return std::optional<NodeId>();
    }

    Result<std::optional<Bounds>> parse_bounds() {
        const char c = current();
        if (c == '*' || c == '+' || c == '?') {
            ++pos_;
            return std::optional(Bounds{c == '+' ? 1U : 0U, c == '?' ? 1U : kUnbounded});
        }
        if (c != '{') return std::optional<Bounds>();
        ++pos_;
        skip_space(false);
        Bounds bounds;
        if (current() == ',') return error("a repetition needs its minimum: {0,5}");
        bounds.min = TRY(parse_count());
        bounds.max = bounds.min;
        if (current() == ',') {
            ++pos_;
            skip_space(false);
            bounds.max = current() == '}' ? kUnbounded : TRY(parse_count());
        }
        if (current() != '}') return error("expected } at the end of a repetition");
        if (bounds.min > bounds.max) return error("the minimum of a repetition is above its maximum");
        ++pos_;
        return std::optional(bounds);
    }

    Result<uint32_t> parse_count() {
        const Result<uint32_t> count = read_count(text_, pos_);
        if (!count) return error(count.error().message);
        skip_space(false);
        return *count;
    }

    Result<NodeId> parse_literal() {
        std::string bytes;
        for (++pos_; current() != '"';) append_utf8(bytes, TRY(parse_character()));
        ++pos_;
        return grammar_.literal(bytes);
    }

    Result<NodeId> parse_class() {
        ++pos_;
        const bool negated = current() == '^';
        if (negated) ++pos_;
        CodePoints points;
        while (current() != ']') {
            const uint32_t first = TRY(parse_character());
            uint32_t last = first;
            if (current() == '-' && pos_ + 1 < text_.size() && text_[pos_ + 1] != ']') {
                ++pos_;
                last = TRY(parse_character());
                if (last < first) return error("a range of characters is the wrong way round");
            }
            points.add(first, last);
        }
        ++pos_;
        return grammar_.characters(negated ? points.complement() : points);
    }

    // One character of a literal or a class.
    Result<uint32_t> parse_character() {
        if (at_end() || current() == '\n') return error("a literal or a class is not closed");
        if (current() == '\\') return parse_escape();
        const Utf8Char next = decode_utf8(text_.substr(pos_));
        if (!next.valid) return error("not valid UTF-8");
        pos_ += next.length;
        return next.code;
    }

    Result<uint32_t> parse_escape() {
        ++pos_;
        const char c = current();
        ++pos_;
        switch (c) {
            case 'n':
                return uint32_t{'\n'};
            case 'r':
                return uint32_t{'\r'};
            case 't':
                return uint32_t{'\t'};
            case '\\':
            case '"':
            case '[':
            case ']':
            case '-':
            case '^':
                return static_cast<uint32_t>(c);
            case 'x':
                return parse_hex(2);
            case 'u':
                return parse_hex(4);
            case 'U':
                return parse_hex(8);
            default:
                --pos_;
                return error("unknown escape: known are \\n \\r \\t \\\\ \\\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH");
        }
    }

    Result<uint32_t> parse_hex(size_t digits) {
        const std::string_view written = text_.substr(std::min(pos_, text_.size()), digits);
        const auto value = hex_value(written);
        if (written.size() < digits || !value) return error(fmt::format("expected {} hexadecimal digits", digits));
        if (*value > 0x10FFFF || (*value >= 0xD800 && *value <= 0xDFFF)) return error("not a Unicode character");
        pos_ += digits;
        return *value;
    }

    std::string_view text_;
    size_t pos_ = 0;
    Grammar grammar_;
    std::unordered_map<std::string, RuleId> names_;
    std::vector<Use> first_uses_;
};

}  // namespace

Result<Grammar> parse_gbnf(std::string_view text) {
    if (text.size() > kMaxSourceBytes) {
        return fail("grammar: {} bytes are too large, {} are allowed", text.size(), kMaxSourceBytes);
    }
    return GbnfParser(text).parse();
}

}  // namespace tandem::text::grammar
