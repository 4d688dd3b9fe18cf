// GBNF grammars against what they mean: texts that match and do not, and a naive matcher for random grammars.
#include <gtest/gtest.h>

#include "grammar_tools.h"

namespace tandem::text {
namespace {

CompiledGrammarPtr compiled(std::string_view text) {
    auto grammar = compile_gbnf(text);
    EXPECT_TRUE(grammar) << text << ": " << grammar.error().message;
    return grammar ? *grammar : nullptr;
}

std::string failure(std::string_view text) {
    const auto grammar = compile_gbnf(text);
    return grammar ? "no error" : grammar.error().message;
}

void expect_texts(std::string_view grammar, const std::vector<std::string>& in, const std::vector<std::string>& out) {
    const auto made = compiled(grammar);
    ASSERT_TRUE(made);
    for (const std::string& text : in) EXPECT_TRUE(matches(made, text)) << grammar << " should match " << text;
    for (const std::string& text : out) EXPECT_FALSE(matches(made, text)) << grammar << " should not match " << text;
}

TEST(CompiledGrammar, IsOneOfTheTexts) {
    const std::vector<std::string> texts = {"yes", "no \"thanks\"", "é"};
    const auto grammar = compile_choice(texts);
    ASSERT_TRUE(grammar) << grammar.error().message;
    for (const std::string& text : texts) EXPECT_TRUE(matches(*grammar, text)) << text;
    for (const char* const text : {"", "ye", "yesno", "no"}) EXPECT_FALSE(matches(*grammar, text)) << text;
}

TEST(CompiledGrammar, IsAllThatARegularExpressionMatches) {
    for (const char* const pattern : {"a+|b", "^a+|b$", "^(?:a+|b)$", "(a+|b)"}) {
        const auto grammar = compile_regex(pattern);
        ASSERT_TRUE(grammar) << pattern << ": " << grammar.error().message;
        for (const char* const text : {"a", "aaa", "b"}) EXPECT_TRUE(matches(*grammar, text)) << pattern << " " << text;
        for (const char* const text : {"", "ab", "xb", "a\n"}) EXPECT_FALSE(matches(*grammar, text)) << pattern << text;
    }
    const auto dollar = compile_regex("a\\$");
    ASSERT_TRUE(dollar) << dollar.error().message;
    EXPECT_TRUE(matches(*dollar, "a$"));
    EXPECT_FALSE(compile_regex("(a"));
    EXPECT_TRUE(matches(*compile_regex(""), ""));
}

TEST(Gbnf, MatchesWhatItsNotationSays) {
    expect_texts(R"(root ::= "yes" | "no")", {"yes", "no"}, {"", "ye", "yess", "yesno"});
    expect_texts(R"(root ::= [a-c]+ "x"? [^a-c])", {"aaxd", "cd", "b!"}, {"d", "aa", "aaxx!"});
    expect_texts(R"(root ::= "a"{2,3} "b"{2} "c"{1,})", {"aabbc", "aaabbccc"}, {"abbc", "aaaabbc", "aabc", "aabb"});
    expect_texts("root ::= (\"a\" | # one\n  \"b\")*\n", {"", "abba"}, {"c"});
    expect_texts("root ::= a-1 |\n  \"z\"\n\n# other\na-1 ::= \"q\"", {"q", "z"}, {"qz"});
    expect_texts(R"(root ::= "\n\t\\\"\x41\u00e9\U0001F600" [\]\-\\])", {"\n\t\\\"A\xC3\xA9\xF0\x9F\x98\x80]"}, {"A"});
    expect_texts(R"(root ::= .)", {"a", "\xC3\xA9", "\xF0\x9F\x98\x80", "\n"},
                 {"", "ab", "\xC3", "\xFF", "\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80"});
    expect_texts(R"(root ::= [à-ü]+)", {"é", "üà"}, {"e", "\xC3"});
    expect_texts(R"(root ::= "a" ())", {"a"}, {""});
    expect_texts(R"(root ::= ("a"?)*)", {"", "aaa"}, {"b"});
    expect_texts(R"(root ::= "")", {""}, {"a"});
}

TEST(Gbnf, RecursionOfEveryKindMatches) {
    expect_texts("root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "(()", "())"});
    expect_texts("root ::= root \"+\" term | term\nterm ::= \"1\" | \"(\" root \")\"", {"1", "1+1", "(1+1)+1"},
                 {"+1", "1+"});
    expect_texts("root ::= \"a\" root | \"a\"", {"a", "aaaaaaaaaa"}, {"", "ab"});
    expect_texts("root ::= x | y\nx ::= y \"a\" | \"b\"\ny ::= x \"c\" | \"d\"", {"b", "d", "bc", "da", "bca", "dacac"},
                 {"a", "bb"});
    expect_texts("root ::= root | \"a\"", {"a"}, {"", "aa"});
    expect_texts("root ::= e root \"x\" | \"y\"\ne ::= \"\" | \"z\"", {"y", "yx", "yxx", "zyx", "zzyxx"}, {"zy", "x"});
    expect_texts("root ::= s s s\ns ::= \"\" | \"a\" s", {"", "a", "aaaaa"}, {"b"});
}

TEST(Gbnf, HugeBoundsAreCountedAndNotUnrolled) {
    const auto grammar = compiled(R"(root ::= "ab"{1000,1000000000} "c" [x-z]{0,999999999})");
    std::string text;
    for (int i = 0; i < 999; ++i) text += "ab";
    EXPECT_EQ(match(grammar, text + "c"), Match::none);
    EXPECT_EQ(match(grammar, text + "abc"), Match::whole);
    EXPECT_EQ(match(grammar, text + "ababababcxyzzy"), Match::whole);
    const auto exact = compiled(R"(root ::= ([a-z] | "é"){300} "!")");
    EXPECT_TRUE(matches(exact, std::string(300, 'q') + "!"));
    EXPECT_FALSE(matches(exact, std::string(299, 'q') + "!"));
    EXPECT_EQ(match(exact, std::string(301, 'q')), Match::none);
    const auto nested = compiled(R"(root ::= (("a"{0,1000} "b"){2,500} "."){100,} "end")");
    std::string lines;
    for (int i = 0; i < 100; ++i) lines += "aabb.";
    EXPECT_TRUE(matches(nested, lines + "end"));
    EXPECT_FALSE(matches(nested, lines.substr(5) + "end"));
}

TEST(Gbnf, ErrorsNameTheLine) {
    EXPECT_EQ(failure("root ::= a"), "grammar, line 1: the rule 'a' is not defined");
    EXPECT_EQ(failure("a ::= \"x\""), "grammar: there is no rule 'root'");
    EXPECT_EQ(failure(""), "grammar: there is no rule 'root'");
    EXPECT_EQ(failure("root ::= \"a\"\nroot ::= \"b\""), "grammar, line 2: the rule 'root' is defined twice");
    EXPECT_EQ(failure("root ::= \"a\n\""), "grammar, line 1: a literal or a class is not closed");
    EXPECT_EQ(failure("root ::= (\"a\""), "grammar, line 1: expected ) at the end of a group");
    EXPECT_EQ(failure("\nroot ::= [z-a]"), "grammar, line 2: a range of characters is the wrong way round");
    EXPECT_EQ(failure("root ::= \"a\"{3,2}"), "grammar, line 1: the minimum of a repetition is above its maximum");
    EXPECT_EQ(failure("root ::= \"a\"{1000000001}"), "grammar, line 1: a repetition is bounded by 1000000000");
    EXPECT_TRUE(failure("root ::= \"\\q\"").starts_with("grammar, line 1: unknown escape: known are "));
    EXPECT_EQ(failure("root ::= \"\\uD800\""), "grammar, line 1: not a Unicode character");
    EXPECT_EQ(failure("root ::= \"a\" )"), "grammar, line 1: unexpected character ')'");
    EXPECT_EQ(failure("root ::= \"a\" \xd2"), "grammar, line 1: unexpected byte 0xd2");
    EXPECT_EQ(failure("root = \"a\""), "grammar, line 1: expected ::= after the name of a rule");
    EXPECT_EQ(failure("root ::= " + std::string(100, '(')), "grammar, line 1: groups are nested deeper than 64 levels");
}

TEST(Gbnf, WhatNeverEndsIsRefusedOrLeftOut) {
    EXPECT_NE(failure("root ::= \"a\" root").find("no finite text matches"), std::string::npos);
    EXPECT_NE(failure("root ::= root").find("no finite text matches"), std::string::npos);
    EXPECT_NE(failure("root ::= []").find("no finite text matches"), std::string::npos);
    EXPECT_NE(failure("root ::= x{5,}\nx ::= y\ny ::= x").find("no finite text matches"), std::string::npos);
    const auto grammar = compiled("root ::= \"a\" endless | \"b\" | \"c\" endless?\nendless ::= \"x\" endless");
    EXPECT_EQ(match(grammar, "a"), Match::none);  // it would lead nowhere
    EXPECT_EQ(match(grammar, "b"), Match::whole);
    EXPECT_EQ(match(grammar, "cx"), Match::none);
    EXPECT_EQ(match(grammar, "c"), Match::whole);
}

TEST(Gbnf, GrammarsThatWouldTakeTooMuchAreRefused) {
    EXPECT_NE(failure("root ::= [ab]* \"a\" [ab]{40}").find("too complex"), std::string::npos);
    std::string chain;
    for (int i = 0; i < 30'000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
    EXPECT_NE(failure("root ::= r0\n" + chain).find("too large"), std::string::npos);
    EXPECT_NE(failure(std::string(600'000, ' ')).find("too large"), std::string::npos);
    std::string words = "root ::= \"0\"";  // short enough as a text
    for (int i = 0; i < 30'000; ++i) words += " | \"" + std::to_string(i * 7919) + "\"";
    EXPECT_NE(failure(words).find("too large"), std::string::npos);
    EXPECT_NE(failure("root ::= (" + words.substr(words.find('"')) + ")").find("too large"), std::string::npos);
}

TEST(Gbnf, LongRuleChainsCompileWithoutDeepRecursion) {
    std::string chain = "root ::= r0\n";
    for (int i = 0; i < 400; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
    expect_texts(chain + "r400 ::= \"a\"", {"a"}, {"b"});
}

TEST(Gbnf, AmbiguityDoesNotMultiplyReadings) {
    const auto grammar = compiled("root ::= s\ns ::= s s | \"a\" | \"a\" s | s \"a\"");
    EXPECT_TRUE(matches(grammar, std::string(200, 'a')));
    const auto counted = compiled(R"(root ::= ("a" | "aa" | "aaa"){50,400} "b")");
    EXPECT_TRUE(matches(counted, std::string(200, 'a') + "b"));
    EXPECT_FALSE(matches(counted, std::string(49, 'a') + "b"));
}

// A grammar as a tree, printed as GBNF for the real thing and matched by brute force here.
struct Expr {
    enum class Kind { literal, any_of, sequence, choice, repeat, rule };
    Kind kind = Kind::literal;
    std::string text;
    std::vector<Expr> parts;
    size_t min = 0;
    size_t max = 0;  // 99: no bound
    size_t rule = 0;
};

class RandomGrammar {
  public:
    explicit RandomGrammar(unsigned seed) : random_(seed) {
        const size_t rules = 1 + random_() % 4;
        for (size_t i = 0; i < rules; ++i) rules_.push_back(make(3, rules));
    }

    std::string gbnf() const {
        std::string text;
        for (size_t i = 0; i < rules_.size(); ++i) text += name(i) + " ::= " + print(rules_[i]) + "\n";
        return text;
    }

    // Every rule, every start: where it may end. Repeated until nothing is added, so recursion needs no care.
    bool matches(const std::string& text) const {
        Ends ends(rules_.size(), std::vector<Places>(text.size() + 1));
        for (bool changed = true; changed;) {
            changed = false;
            for (size_t rule = 0; rule < rules_.size(); ++rule) {
                for (size_t at = 0; at <= text.size(); ++at) {
                    const Places found = ends[rule][at] | match(rules_[rule], text, at, ends);
                    changed = changed || found != ends[rule][at];
                    ends[rule][at] = found;
                }
            }
        }
        return (ends[0][0] & place(text.size())) != 0;
    }

  private:
    using Places = uint32_t;  // in a short text: bit i for the place before byte i
    using Ends = std::vector<std::vector<Places>>;

    static Places place(size_t at) { return Places{1} << at; }

    Expr make(int depth, size_t rules) {
        const size_t kind = random_() % (depth == 0 ? 3 : 8);
        Expr expr;
        if (kind == 0 || kind == 1) {
            expr.text = std::string(1 + random_() % 2, random_() % 2 == 0 ? 'a' : 'b');
            expr.kind = kind == 0 ? Expr::Kind::literal : Expr::Kind::any_of;
            if (kind == 1) expr.text = random_() % 2 == 0 ? "ab" : "b";
        } else if (kind == 2) {
            expr.kind = Expr::Kind::rule;
            expr.rule = random_() % rules;
        } else if (kind < 5) {
            expr.kind = kind == 3 ? Expr::Kind::sequence : Expr::Kind::choice;
            const size_t parts = random_() % 4;
            for (size_t i = 0; i < parts; ++i) expr.parts.push_back(make(depth - 1, rules));
            if (parts == 0) expr.kind = Expr::Kind::sequence;  // GBNF has no empty choice
        } else {
            expr.kind = Expr::Kind::repeat;
            expr.parts.push_back(make(depth - 1, rules));
            expr.min = random_() % 3;
            expr.max = random_() % 3 == 0 ? 99 : expr.min + random_() % 3;
        }
        return expr;
    }

    static std::string name(size_t rule) { return rule == 0 ? "root" : "r" + std::to_string(rule); }

    static std::string print(const Expr& expr) {
        std::string text;
        switch (expr.kind) {
            case Expr::Kind::literal:
                return "\"" + expr.text + "\"";
            case Expr::Kind::any_of:
                return "[" + expr.text + "]";
            case Expr::Kind::rule:
                return name(expr.rule);
            case Expr::Kind::repeat:
                text = "(" + print(expr.parts[0]) + "){" + std::to_string(expr.min) + ",";
                return text + (expr.max == 99 ? "" : std::to_string(expr.max)) + "}";
            default:
                for (const Expr& part : expr.parts) {
                    if (!text.empty()) text += expr.kind == Expr::Kind::choice ? " | " : " ";
                    text += print(part);
                }
                return "(" + text + ")";
        }
    }

    Places match(const Expr& expr, const std::string& text, size_t at, const Ends& ends) const {
        Places found = 0;
        switch (expr.kind) {
            case Expr::Kind::literal:
                return text.compare(at, expr.text.size(), expr.text) == 0 ? place(at + expr.text.size()) : 0;
            case Expr::Kind::any_of:
                return at < text.size() && expr.text.find(text[at]) != std::string::npos ? place(at + 1) : 0;
            case Expr::Kind::rule:
                return ends[expr.rule][at];
            case Expr::Kind::choice:
                for (const Expr& part : expr.parts) found |= match(part, text, at, ends);
                return found;
            case Expr::Kind::sequence:
                found = place(at);
                for (const Expr& part : expr.parts) found = after(part, text, found, ends);
                return found;
            case Expr::Kind::repeat:
                break;
        }
        Places reached = place(at);
        for (size_t i = 0; i < expr.min; ++i) reached = after(expr.parts[0], text, reached, ends);
        found = reached;
        const size_t more = expr.max == 99 ? text.size() + 1 : expr.max - expr.min;
        for (size_t i = 0; i < more; ++i) {
            reached = after(expr.parts[0], text, reached, ends);
            found |= reached;
        }
        return found;
    }

    Places after(const Expr& part, const std::string& text, Places starts, const Ends& ends) const {
        Places found = 0;
        for (size_t start = 0; start <= text.size(); ++start) {
            if ((starts & place(start)) != 0) found |= match(part, text, start, ends);
        }
        return found;
    }

    std::mt19937 random_;
    std::vector<Expr> rules_;
};

std::vector<std::string> all_texts(size_t longest) {
    std::vector<std::string> texts = {""};
    for (size_t i = 0; i < texts.size(); ++i) {
        if (texts[i].size() == longest) break;
        texts.push_back(texts[i] + "a");
        texts.push_back(texts[i] + "b");
    }
    return texts;
}

TEST(Gbnf, RandomGrammarsAgreeWithBruteForceOnEveryShortText) {
    const auto texts = all_texts(6);
    int compared = 0;
    for (unsigned seed = 0; seed < 250; ++seed) {
        const RandomGrammar random(seed);
        const auto grammar = compile_gbnf(random.gbnf());
        bool any = false;
        for (const std::string& text : texts) {
            const bool expected = random.matches(text);
            any = any || expected;
            if (!grammar) continue;
            ASSERT_EQ(matches(*grammar, text), expected) << "seed " << seed << ": " << text << "\n" << random.gbnf();
            ++compared;
        }
        ASSERT_TRUE(grammar || !any) << grammar.error().message << "\n" << random.gbnf();
    }
    EXPECT_GT(compared, 10'000);
}

// What is allowed can always be brought to an end: no dead ends. Tokens of several bytes are allowed exactly when
// their bytes are, one after the other.
TEST(Gbnf, MasksOfRandomGrammarsAreWhatAcceptTakes) {
    const std::vector<std::string> tokens = {"a",    "b",   "ab", "ba",    "aa", "bb", "aab",
                                             "abba", "bbb", "",   "babab", "c",  "ab"};
    const auto trie = std::make_shared<const TokenTrie>(tokens, std::vector<TokenId>{9});
    for (unsigned seed = 0; seed < 300; ++seed) {
        const RandomGrammar random(seed);
        const auto grammar = compile_gbnf(random.gbnf());
        if (!grammar) continue;
        GrammarMatcher matcher(std::make_shared<const TokenMasks>(*grammar, trie));
        std::mt19937 choose(seed);
        for (int step = 0; step < 8 && !matcher.finished(); ++step) {
            const auto mask = mask_of(matcher, *trie);
            std::vector<TokenId> allowed;
            for (TokenId id = 0; id < trie->vocab_size(); ++id) {
                GrammarMatcher copy = matcher;
                const bool accepted = copy.accept(id);
                ASSERT_EQ(accepted, is_set(mask, id))
                    << "seed " << seed << " token " << tokens[static_cast<size_t>(id)] << "\n"
                    << random.gbnf();
                if (accepted) allowed.push_back(id);
            }
            ASSERT_FALSE(allowed.empty());
            ASSERT_TRUE(matcher.accept(allowed[choose() % allowed.size()]));
        }
    }
}

}  // namespace
}  // namespace tandem::text
