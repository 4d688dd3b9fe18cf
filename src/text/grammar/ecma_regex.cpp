#include "text/grammar/ecma_regex.h"

#include <algorithm>
#include <optional>

#include "text/grammar/limits.h"
#include "text/utf8.h"

namespace tandem::text::grammar {

namespace {

// A part of a pattern; a part of other parts is at most kMaxNesting deep.
struct Part {
    NodeId node = 0;
    uint64_t min = 0;  // characters
    uint64_t max = 0;
    bool starts = false;  // anchored: nothing may come before it
    bool ends = false;    // nothing may come after it
};

uint64_t multiply(uint64_t length, uint64_t count) {
    if (length == 0 || count == 0) return 0;
    return length >= kUnbounded || count >= kUnbounded ? kUnbounded : std::min<uint64_t>(length * count, kUnbounded);
}

uint64_t add(uint64_t a, uint64_t b) {
    return std::min<uint64_t>(a + b, kUnbounded);
}

CodePoints digit_class() {
    return {{'0', '9'}};
}

CodePoints word_class() {
    return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
}

CodePoints space_class() {
    return {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
            {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}

CodePoints line_ends() {
    return {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
}

class RegexParser {
  public:
    RegexParser(Grammar& grammar, std::string_view pattern, const WriteCharacters& write)
        : grammar_(grammar), text_(pattern), write_(write) {}

    Result<RegexGrammar> parse() {
        const Part whole = TRY(parse_alternatives(0, true));
        if (!at_end()) return error("an unmatched )");
        if (grammar_.full()) return error("it is too large");
        return RegexGrammar{whole.node, whole.min, whole.max};
    }

  private:
    struct Bounds {
        uint32_t min = 0;
        uint32_t max = 0;
    };

    bool at_end() const { return pos_ >= text_.size(); }
    char current() const { return at_end() ? '\0' : text_[pos_]; }
    bool skip(std::string_view what) {
        if (!text_.substr(std::min(pos_, text_.size())).starts_with(what)) return false;
        pos_ += what.size();
        return true;
    }
    Error error(std::string_view message) const { return fail("{} (at character {} of the pattern)", message, pos_); }

    // `outermost`: the alternatives are the whole pattern, so each of them may have anything around it.
    Result<Part> parse_alternatives(int depth, bool outermost) {
        if (depth > kMaxNesting) return error(fmt::format("groups are nested deeper than {} levels", kMaxNesting));
        std::vector<NodeId> options;
        Part all{.min = kUnbounded};
        do {
            const Part option = TRY(parse_sequence(depth, outermost));
            options.push_back(option.node);
            all.min = std::min(all.min, option.min);
            all.max = std::max(all.max, option.max);
        } while (skip("|"));
        all.node = grammar_.choice(options);
        return all;
    }

    Result<Part> parse_sequence(int depth, bool outermost) {
        std::vector<NodeId> nodes;
        Part all;
        if (outermost) {
            // "(?:^a|b$)" as a whole is the same without the group.
            if (const auto group = TRY(parse_whole_group(depth))) return *group;
            while (skip("^")) all.starts = true;
            if (!all.starts) nodes.push_back(anything());
        }
        while (!at_end() && current() != '|' && current() != ')') {
            if (current() == '^') return error("^ is supported at the start of the pattern only");
            if (current() == '$') {
                while (skip("$")) all.ends = true;
                if (!outermost || (!at_end() && current() != '|' && current() != ')')) {
                    return error("$ is supported at the end of the pattern only");
                }
                break;
            }
            const Part part = TRY(parse_repeated(depth));
            nodes.push_back(part.node);
            all.min = add(all.min, part.min);
            all.max = add(all.max, part.max);
            if (grammar_.full()) return error("it is too large");
        }
        if (outermost && !all.ends) nodes.push_back(anything());
        if (outermost && !(all.starts && all.ends)) all.max = kUnbounded;
        all.node = grammar_.sequence(nodes);
        return all;
    }

    NodeId anything() { return grammar_.repeat(write_(CodePoints::all()), 0, kUnbounded); }

    // A group that is all of an outermost alternative; nothing, and nothing read, when it is not.
    Result<std::optional<Part>> parse_whole_group(int depth) {
        const size_t begin = pos_;
        if (current() != '(' || !TRY(skip_group_start())) {
            pos_ = begin;
            return std::optional<Part>();
        }
        size_t end = pos_;
        if (!find_group_end(end) || (end + 1 < text_.size() && text_[end + 1] != '|' && text_[end + 1] != ')')) {
            pos_ = begin;
            return std::optional<Part>();
        }
        const Part group = TRY(parse_alternatives(depth + 1, true));
        if (!skip(")")) return error("expected ) at the end of a group");
        return std::optional(group);
    }

    // From inside of a group to its closing parenthesis.
    bool find_group_end(size_t& at) const {
        int depth = 0;
        bool in_class = false;
        for (; at < text_.size(); ++at) {
            const char c = text_[at];
            if (c == '\\') {
                ++at;
            } else if (in_class) {
                in_class = c != ']';
            } else if (c == '[') {
                in_class = true;
            } else if (c == '(') {
                ++depth;
            } else if (c == ')' && depth-- == 0) {
                return true;
            }
        }
        return false;
    }

    // True after "(", "(?:" or "(?<name>".
    Result<bool> skip_group_start() {
        ++pos_;
        if (!skip("?")) return true;
        if (skip(":")) return true;
        if (text_.substr(pos_).starts_with("<") && !text_.substr(pos_).starts_with("<=") &&
            !text_.substr(pos_).starts_with("<!")) {
            const size_t end = text_.find('>', pos_);
            if (end == std::string_view::npos) return error("the name of a group is not closed");
            pos_ = end + 1;
            return true;
        }
        return error("lookahead and lookbehind are not supported");
    }

    Result<Part> parse_repeated(int depth) {
        Part part = TRY(parse_atom(depth));
        const auto bounds = TRY(parse_bounds());
        if (!bounds) return part;
        skip("?");  // lazy: the same texts
        part.node = grammar_.repeat(part.node, bounds->min, bounds->max);
        part.min = multiply(part.min, bounds->min);
        part.max = multiply(part.max, bounds->max);
        return part;
    }

    Result<std::optional<Bounds>> parse_bounds() {
        if (skip("*")) return std::optional(Bounds{0, kUnbounded});
        if (skip("+")) return std::optional(Bounds{1, kUnbounded});
        if (skip("?")) return std::optional(Bounds{0, 1});
        if (!skip("{")) return std::optional<Bounds>();
        Bounds bounds;
        bounds.min = TRY(parse_count());
        bounds.max = bounds.min;
        if (skip(",")) bounds.max = current() == '}' ? kUnbounded : TRY(parse_count());
        if (!skip("}")) return error("expected } at the end of a repetition");
        if (bounds.min > bounds.max) return error("the minimum of a repetition is above its maximum");
        return std::optional(bounds);
    }

    Result<uint32_t> parse_count() {
        const Result<uint32_t> count = read_count(text_, pos_);
        if (!count) return error(count.error().message);
        return *count;
    }

    Part one_of(const CodePoints& points) { return {.node = write_(points), .min = 1, .max = 1}; }

    Result<Part> parse_atom(int depth) {
        const char c = current();
        if (c == '(') {
            TRY(skip_group_start());
            const Part group = TRY(parse_alternatives(depth + 1, false));
            if (!skip(")")) return error("expected ) at the end of a group");
            return group;
        }
        if (c == '[') return one_of(TRY(parse_class()));
        if (c == '*' || c == '+' || c == '?' || c == '{') return error("a repetition of nothing");
        if (skip(".")) return one_of(line_ends().complement());
        if (skip("\\")) return one_of(TRY(parse_escape(false)));
        const uint32_t code = TRY(parse_plain());
        return one_of({{code, code}});
    }

    Result<uint32_t> parse_plain() {
        const Utf8Char next = decode_utf8(text_.substr(pos_));
        if (!next.valid) return error("not valid UTF-8");
        pos_ += next.length;
        return next.code;
    }

    Result<CodePoints> parse_class() {
        ++pos_;
        const bool negated = skip("^");
        CodePoints points;
        while (!skip("]")) {
            if (at_end()) return error("a class of characters is not closed");
            const CodePoints first = TRY(parse_class_atom());
            const bool is_range = current() == '-' && pos_ + 1 < text_.size() && text_[pos_ + 1] != ']';
            if (!is_range) {
                points.add(first);
                continue;
            }
            ++pos_;
            const CodePoints last = TRY(parse_class_atom());
            if (!is_single(first) || !is_single(last)) return error("a range between classes of characters");
            const uint32_t low = first.ranges().front().first;
            const uint32_t high = last.ranges().front().first;
            if (low > high) return error("a range of characters is the wrong way round");
            points.add(low, high);
        }
        return negated ? points.complement() : points;
    }

    static bool is_single(const CodePoints& points) {
        return points.ranges().size() == 1 && points.ranges().front().first == points.ranges().front().last;
    }

    Result<CodePoints> parse_class_atom() {
        if (at_end()) return error("a class of characters is not closed");
        if (skip("\\")) return parse_escape(true);
        const uint32_t code = TRY(parse_plain());
        return CodePoints({{code, code}});
    }

    Result<CodePoints> parse_escape(bool in_class) {
        if (at_end()) return error("a \\ at the end");
        const char c = text_[pos_++];
        switch (c) {
            case 'd':
                return digit_class();
            case 'D':
                return digit_class().complement();
            case 'w':
                return word_class();
            case 'W':
                return word_class().complement();
            case 's':
                return space_class();
            case 'S':
                return space_class().complement();
            case 'b':
                if (in_class) return single('\b');
                return error("word boundaries are not supported");
            case 'B':
                return error("word boundaries are not supported");
            case 'k':
                return error("backreferences are not supported");
            case 'p':
            case 'P':
                return error("\\p classes are not supported");
            default:
                return parse_character_escape(c);
        }
    }

    static CodePoints single(uint32_t code) { return {{code, code}}; }

    Result<CodePoints> parse_character_escape(char c) {
        switch (c) {
            case 'n':
                return single('\n');
            case 'r':
                return single('\r');
            case 't':
                return single('\t');
            case 'f':
                return single('\f');
            case 'v':
                return single('\v');
            case 'x':
                return single(TRY(parse_hex(2)));
            case 'u':
                return single(TRY(parse_unicode()));
            case 'c': {
                const char letter = current();
                if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')))
                    return error("expected a letter after \\c");
                ++pos_;
                return single(static_cast<uint32_t>(letter) % 32);
            }
            case '0':
                if (current() >= '0' && current() <= '9') return error("octal escapes are not supported");
                return single(0);
            default:
                break;
        }
        if (c >= '1' && c <= '9') return error("backreferences are not supported");
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (is_letter) return error(fmt::format("unknown escape \\{}", c));
        --pos_;
        return single(TRY(parse_plain()));
    }

    Result<uint32_t> parse_hex(size_t digits) {
        uint32_t value = 0;
        for (size_t i = 0; i < digits; ++i, ++pos_) {
            const char c = current();
            const bool is_digit = c >= '0' && c <= '9';
            const bool is_letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
            if (!is_digit && !is_letter) return error("expected a hexadecimal digit");
            value = value * 16 + static_cast<uint32_t>(is_digit ? c - '0' : (c | 0x20) - 'a' + 10);
        }
        return value;
    }

    Result<uint32_t> parse_unicode() {
        uint32_t code = 0;
        if (skip("{")) {
            for (; current() != '}';) {
                code = code * 16 + TRY(parse_hex(1));
                if (code > 0x10FFFF) return error("not a Unicode character");
            }
            ++pos_;
        } else {
            code = TRY(parse_hex(4));
            if (code >= 0xD800 && code <= 0xDBFF && skip("\\u")) {
                const uint32_t low = TRY(parse_hex(4));
                if (low < 0xDC00 || low > 0xDFFF) return error("half of a surrogate pair");
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            }
        }
        if (code >= 0xD800 && code <= 0xDFFF) return error("half of a surrogate pair");
        return code;
    }

    Grammar& grammar_;
    std::string_view text_;
    const WriteCharacters& write_;
    size_t pos_ = 0;
};

}  // namespace

Result<RegexGrammar> parse_ecma_regex(Grammar& grammar, std::string_view pattern, const WriteCharacters& write) {
    if (pattern.size() > kMaxSourceBytes / 16) return fail("a pattern of {} bytes is too long", pattern.size());
    return RegexParser(grammar, pattern, write).parse();
}

}  // namespace tandem::text::grammar
