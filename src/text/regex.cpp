#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <string>

#include "text/utf8.h"

namespace tandem::text {

namespace {

constexpr size_t kMaxPatternBytes = 16384;
// White_Space as Unicode has it; PCRE2's \s also takes U+180E. Stands inside a character class.
constexpr std::string_view kSpaceClass = "\\t-\\r\\x{20}\\x{85}\\p{Z}";
// PCRE2's \w leaves out the marks and takes all numbers; Oniguruma's takes those of Latin-1 beside the digits.
constexpr std::string_view kWordClass = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";

PCRE2_SPTR units(std::string_view text) {
    // PCRE2 takes no null, not even for an empty text.
    return reinterpret_cast<PCRE2_SPTR>(text.empty() ? "" : text.data());
}

bool is_script(std::string_view name) {
    const std::string test = fmt::format("\\p{{sc:{}}}", name);
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code = pcre2_compile(units(test), test.size(), PCRE2_UTF, &error, &offset, nullptr);
    pcre2_code_free(code);
    return code != nullptr;
}

// Rewrites what Oniguruma and PCRE2 read differently.
class Translator {
  public:
    explicit Translator(std::string_view pattern) : in_(pattern) {}

    Result<std::string> run() {
        while (at_ < in_.size()) {
            const char c = in_[at_];
            if (c == '\\') {
                escape();
            } else if (depth_ == 0) {
                if (c == '[')
                    open_class();
                else
                    copy(1);
            } else {
                TRY(in_class(c));
            }
        }
        return std::move(out_);
    }

  private:
    void copy(size_t count) {
        out_ += in_.substr(at_, count);
        at_ += count;
    }

    void escape() {
        const char kind = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
        if (kind == 's') {
            replace_escape(kSpaceClass, "[", "]");
        } else if (kind == 'S' && depth_ == 0) {
            replace_escape(kSpaceClass, "[^", "]");
        } else if (kind == 'S') {
            replace_escape("\\P{White_Space}", "", "");
        } else if (kind == 'p' || kind == 'P') {
            property();
        } else if (kind == 'b' && depth_ == 0) {
            replace_escape(fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", kWordClass), "", "");
        } else if (kind == 'w') {
            replace_escape(kWordClass, "[", "]");
        } else if (kind == 'W' && depth_ == 0) {
            replace_escape(kWordClass, "[^", "]");
        } else if (kind == 'h') {  // a hexadecimal digit, not a horizontal space
            replace_escape("0-9A-Fa-f", "[", "]");
        } else if (kind == 'u' && at_ + 6 <= in_.size()) {
            out_ += "\\x{";
            out_ += in_.substr(at_ + 2, 4);
            out_ += '}';
            at_ += 6;
        } else {
            copy(2);
        }
    }

    // PCRE2 takes the name of a script for its extensions too.
    void property() {
        const std::string_view rest = in_.substr(at_);
        const size_t end = rest.find('}');
        if (rest.size() < 3 || rest[2] != '{' || end == std::string_view::npos) return copy(2);
        std::string_view name = rest.substr(3, end - 3);
        copy(3);
        if (name.starts_with('^')) {
            copy(1);
            name.remove_prefix(1);
        }
        const bool plain =
            name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_") == std::string_view::npos;
        if (name.size() > 2 && plain && is_script(name)) out_ += "sc:";
        copy(name.size() + 1);
    }

    void replace_escape(std::string_view members, std::string_view open, std::string_view close) {
        if (depth_ == 0) out_ += open;
        out_ += members;
        if (depth_ == 0) out_ += close;
        at_ += 2;
    }

    void open_class() {
        ++depth_;
        copy(1);
        if (at_ < in_.size() && in_[at_] == '^') copy(1);
        if (at_ < in_.size() && in_[at_] == ']') {  // the first one stands for itself
            out_ += "\\]";
            ++at_;
        }
    }

    Status in_class(char c) {
        const std::string_view rest = in_.substr(at_);
        if (rest.starts_with("&&"))
            return fail("regular expression '{}': intersections of classes (&&) are not supported", in_);
        if (rest.starts_with("[:")) {
            const size_t end = rest.find(":]");
            copy(end == std::string_view::npos ? rest.size() : end + 2);
        } else if (c == '[') {  // a class inside a class adds its members
            if (rest.starts_with("[^"))
                return fail("regular expression '{}': a negated class inside a class is not supported", in_);
            ++depth_;
            ++at_;
        } else if (c == ']') {
            if (--depth_ == 0) out_ += ']';
            ++at_;
        } else {
            copy(1);
        }
        return Ok{};
    }

    std::string_view in_;
    std::string out_;
    size_t at_ = 0;
    int depth_ = 0;
};

struct FreeMatch {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
    void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};

// No expression may take forever; shared, because matching only reads it.
pcre2_match_context* limits() {
    static const std::unique_ptr<pcre2_match_context, FreeMatch> context = [] {
        std::unique_ptr<pcre2_match_context, FreeMatch> made(pcre2_match_context_create(nullptr));
        pcre2_set_match_limit(made.get(), 10'000'000);
        pcre2_set_heap_limit(made.get(), 64 * 1024);  // KiB
        return made;
    }();
    return context.get();
}

}  // namespace

void Regex::Free::operator()(pcre2_real_code_8* code) const {
    pcre2_code_free(code);
}

Result<Regex> Regex::compile(std::string_view pattern) {
    if (pattern.size() > kMaxPatternBytes)
        return fail("a regular expression of {} bytes is longer than the limit of {}", pattern.size(),
                    kMaxPatternBytes);
    const std::string translated = TRY(Translator(pattern).run());
    const std::unique_ptr<pcre2_compile_context, FreeMatch> context(pcre2_compile_context_create(nullptr));
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    int error = 0;
    PCRE2_SIZE offset = 0;
    // In Oniguruma ^ and $ always mean lines.
    constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    Regex regex;
    regex.code_.reset(pcre2_compile(units(translated), translated.size(), kOptions, &error, &offset, context.get()));
    if (!regex.code_) {
        std::array<PCRE2_UCHAR, 256> message{};
        pcre2_get_error_message(error, message.data(), message.size());
        return fail("regular expression '{}': {}", pattern, reinterpret_cast<const char*>(message.data()));
    }
    pcre2_jit_compile(regex.code_.get(), PCRE2_JIT_COMPLETE);  // where there is no JIT, matching interprets
    return regex;
}

void Regex::find_all(std::string_view text, std::vector<ByteRange>& matches) const {
    // Texts come in very many small parts: one per thread saves making it anew each time.
    thread_local const std::unique_ptr<pcre2_match_data, FreeMatch> data(pcre2_match_data_create(1, nullptr));
    if (!is_valid_utf8(text)) return;
    constexpr size_t kNowhere = PCRE2_UNSET;
    size_t at = 0;
    size_t last_end = kNowhere;
    uint32_t options = PCRE2_NO_UTF_CHECK;
    while (at <= text.size()) {
        int rc = pcre2_match(code_.get(), units(text), text.size(), at, options, data.get(), limits());
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter has the heap instead
            options |= PCRE2_NO_JIT;
            rc = pcre2_match(code_.get(), units(text), text.size(), at, options, data.get(), limits());
        }
        if (rc < 0) return;
        const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data.get());
        const bool backwards = found[0] < at || found[1] < found[0];  // by \K
        if (backwards || (found[0] == found[1] && found[1] == last_end)) {
            ++at;
            while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) ++at;
            continue;
        }
        matches.push_back({found[0], found[1]});
        at = last_end = found[1];
    }
}

}  // namespace tandem::text
