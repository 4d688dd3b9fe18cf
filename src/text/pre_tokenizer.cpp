#include "text/pre_tokenizer.h"

#include <algorithm>

#include "text/byte_level.h"
#include "text/utf8.h"

namespace tandem::text {

namespace {

struct Part {
    ByteRange range;
    bool match;
};

// The matches and what lies between them, in order, covering the text.
void cover(std::string_view text, const std::vector<ByteRange>& matches, bool invert, std::vector<Part>& parts) {
    parts.clear();
    size_t at = 0;
    for (const ByteRange& match : matches) {
        if (at < match.begin) parts.push_back({{at, match.begin}, invert});
        parts.push_back({match, !invert});
        at = match.end;
    }
    if (at < text.size()) parts.push_back({{at, text.size()}, invert});
}

void merge_with_previous(std::vector<Part>& parts) {
    size_t kept = 0;
    bool after_match = false;
    for (const Part& part : parts) {
        if (part.match && !after_match && kept > 0)
            parts[kept - 1].range.end = part.range.end;
        else
            parts[kept++] = part;
        after_match = part.match;
    }
    parts.resize(kept);
}

void merge_with_next(std::vector<Part>& parts) {
    size_t kept = parts.size();
    bool before_match = false;
    for (size_t i = parts.size(); i-- > 0;) {
        const Part part = parts[i];
        if (part.match && !before_match && kept < parts.size())
            parts[kept].range.begin = part.range.begin;
        else
            parts[--kept] = part;
        before_match = part.match;
    }
    parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(kept));
}

void merge_contiguous(std::vector<Part>& parts) {
    size_t kept = 0;
    bool previous = false;
    for (const Part& part : parts) {
        if (part.match == previous && kept > 0)
            parts[kept - 1].range.end = part.range.end;
        else
            parts[kept++] = part;
        previous = part.match;
    }
    parts.resize(kept);
}

class Split : public PreTokenizer {
  public:
    Split(Pattern pattern, SplitBehavior behavior, bool invert)
        : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

    void apply(Fragments& fragments) const override {
        std::vector<Fragment> out;
        std::vector<ByteRange> matches;
        std::vector<Part> parts;
        for (const Fragment& fragment : fragments.list) {
            pattern_.find_all(fragment.text, matches);
            cover(fragment.text, matches, invert_, parts);
            rearrange(parts);
            for (const Part& part : parts) {
                const ByteRange range = part.range;
                if (range.begin == range.end) continue;
                out.push_back({fragment.text.substr(range.begin, range.end - range.begin),
                               fragment.at_start && range.begin == 0});
            }
        }
        fragments.list = std::move(out);
    }

  private:
    void rearrange(std::vector<Part>& parts) const {
        switch (behavior_) {
            case SplitBehavior::isolated:
                return;
            case SplitBehavior::removed:
                std::erase_if(parts, [](const Part& part) { return part.match; });
                return;
            case SplitBehavior::merged_with_previous:
                return merge_with_previous(parts);
            case SplitBehavior::merged_with_next:
                return merge_with_next(parts);
            case SplitBehavior::contiguous:
                return merge_contiguous(parts);
        }
    }

    Pattern pattern_;
    SplitBehavior behavior_;
    bool invert_;
};

class Thousands : public PreTokenizer {
  public:
    explicit Thousands(Pattern digits) : digits_(std::move(digits)) {}

    void apply(Fragments& fragments) const override {
        std::vector<Fragment> out;
        std::vector<ByteRange> matches;
        for (const Fragment& fragment : fragments.list) {
            digits_.find_all(fragment.text, matches);
            const auto add = [&](size_t begin, size_t end) {
                if (begin < end)
                    out.push_back({fragment.text.substr(begin, end - begin), fragment.at_start && begin == 0});
            };
            size_t at = 0;
            for (const ByteRange& match : matches) {
                add(at, match.begin);
                add_groups(fragment.text.substr(0, match.end), match.begin, add);
                at = match.end;
            }
            add(at, fragment.text.size());
        }
        fragments.list = std::move(out);
    }

  private:
    // Calls add(begin, end) for the groups of text[begin, end of text).
    template <typename Add>
    static void add_groups(std::string_view text, size_t begin, Add add) {
        size_t left = 0;  // characters
        for (size_t at = begin; at < text.size(); at += decode_utf8(text.substr(at)).length) ++left;
        size_t at = begin;
        for (; left > 0; --left) {
            if (left % 3 == 0) {
                add(begin, at);
                begin = at;
            }
            at += decode_utf8(text.substr(at)).length;
        }
        add(begin, at);
    }

    Pattern digits_;
};

bool is_ascii_sign(uint32_t code) {
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
           (code >= '{' && code <= '~');
}

class PrefixSpace : public PreTokenizer {
  public:
    void apply(Fragments& fragments) const override {
        for (Fragment& fragment : fragments.list) {
            if (fragment.text.starts_with(' ')) continue;
            fragment.text = fragments.storage.emplace_back(" " + std::string(fragment.text));
        }
    }
};

class ByteLevel : public PreTokenizer {
  public:
    void apply(Fragments& fragments) const override {
        size_t bytes = 0;
        for (const Fragment& fragment : fragments.list) bytes += fragment.text.size();
        std::string& all = fragments.storage.emplace_back();
        all.reserve(2 * bytes);  // a byte becomes at most two, so the views into it stay good
        for (Fragment& fragment : fragments.list) {
            const size_t begin = all.size();
            append_byte_level(fragment.text, all);
            fragment.text = std::string_view(all).substr(begin);
        }
    }
};

class Metaspace : public PreTokenizer {
  public:
    explicit Metaspace(MetaspaceOptions options)
        : options_(std::move(options)),
          split_(Pattern::literal(options_.replacement), SplitBehavior::merged_with_next, false) {}

    void apply(Fragments& fragments) const override {
        for (Fragment& fragment : fragments.list) {
            std::string& text = fragments.storage.emplace_back(replace_all(fragment.text, " ", options_.replacement));
            if (prepends(fragment) && !text.starts_with(options_.replacement)) text.insert(0, options_.replacement);
            fragment.text = text;
        }
        if (options_.split) split_.apply(fragments);
    }

  private:
    bool prepends(const Fragment& fragment) const {
        return options_.prepend_scheme == PrependScheme::always ||
               (options_.prepend_scheme == PrependScheme::first && fragment.at_start);
    }

    MetaspaceOptions options_;
    Split split_;
};

}  // namespace

PreTokenizerPtr split_pre_tokenizer(Pattern pattern, SplitBehavior behavior, bool invert) {
    return std::make_unique<Split>(std::move(pattern), behavior, invert);
}

PreTokenizerPtr whitespace_pre_tokenizer() {
    return split_pre_tokenizer(Pattern::characters(is_space), SplitBehavior::removed);
}

PreTokenizerPtr punctuation_pre_tokenizer(SplitBehavior behavior) {
    return split_pre_tokenizer(
        Pattern::characters([](uint32_t code) { return is_ascii_sign(code) || is_punctuation(code); }), behavior);
}

PreTokenizerPtr thousands_pre_tokenizer(Pattern digits) {
    return std::make_unique<Thousands>(std::move(digits));
}

PreTokenizerPtr prefix_space_pre_tokenizer() {
    return std::make_unique<PrefixSpace>();
}

PreTokenizerPtr byte_level_pre_tokenizer() {
    return std::make_unique<ByteLevel>();
}

PreTokenizerPtr metaspace_pre_tokenizer(MetaspaceOptions options) {
    return std::make_unique<Metaspace>(std::move(options));
}

}  // namespace tandem::text
