// Time that a grammar adds to each token on the host, with a vocabulary of Gemma's size: first request and later ones.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <set>

#include "text/grammar/matcher.h"

namespace tandem::bench {

namespace {

using text::GrammarMatcher;
using text::TokenId;
using text::TokenMasks;
using text::TokenTrie;

constexpr size_t kVocab = 262'144;
constexpr int kRequests = 20;

// Of processor time: what else runs on the machine does not count.
double now_us() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

class VocabularyMaker {
  public:
    // Bytes, words of many alphabets, numbers, blanks, and the punctuation of code and JSON alone and after words.
    std::vector<std::string> make() {
        std::set<std::string> made;
        for (int byte = 0; byte < 256; ++byte) made.insert(std::string(1, static_cast<char>(byte)));
        for (int i = 0; i < 1000; ++i) made.insert(std::to_string(i));
        for (size_t i = 1; i < 32; ++i) made.insert(std::string(i, ' '));
        for (size_t i = 0; i < 32; ++i) made.insert("\n" + std::string(i, ' '));
        while (made.size() < kVocab - 1)
            made.insert(random_() % 40 == 0 ? word() + mark() : random_() % 20 == 0 ? mark() + word() : word());
        std::vector<std::string> tokens(made.begin(), made.end());
        std::shuffle(tokens.begin(), tokens.end(), random_);
        tokens.emplace_back();
        return tokens;
    }

  private:
    std::string mark() {
        static const std::vector<std::string> marks = {"\"",    "\",",   "\":", "\"}",   "\"},", "{\"", "[\"",
                                                       "\",\"", "\":\"", "}",   "},{\"", "\\n",  ".\"", ":",
                                                       ",",     ".",     "(",   ");",    "='",   "/>"};
        return marks[random_() % marks.size()];
    }

    std::string word() {
        static const std::vector<std::string> letters = {"a", "e", "i",  "o",  "u",  "t",  "n",  "s",
                                                         "r", "l", "th", "st", "in", "er", "on", "é"};
        std::string text = random_() % 2 == 0 ? " " : "";
        const bool latin = random_() % 4 != 0;
        const size_t length = 2 + random_() % 6;
        for (size_t i = 0; i < length; ++i) {
            if (latin) {
                text += letters[random_() % letters.size()];
            } else {  // three bytes each
                text += static_cast<char>(0xE4 + random_() % 5);
                text += static_cast<char>(0x80 + random_() % 64);
                text += static_cast<char>(0x80 + random_() % 64);
            }
        }
        return text;
    }

    std::mt19937 random_{1};
};

struct Timings {
    std::vector<double> mask_us, accept_us;

    static double quantile(std::vector<double>& values, double q) {
        std::sort(values.begin(), values.end());
        return values.empty() ? 0 : values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
    }
    void print(std::string_view name) {
        fmt::print(
            "  {:<16} {:>6} tokens, mask p50 {:>7.1f} us, p99 {:>8.1f} us, most {:>8.1f} us, accept p50 {:>5.2f} us, "
            "p99 "
            "{:>5.2f} us\n",
            name, mask_us.size(), quantile(mask_us, 0.5), quantile(mask_us, 0.99), quantile(mask_us, 1),
            quantile(accept_us, 0.5), quantile(accept_us, 0.99));
    }
};

// One answer: random tokens that are allowed; strings end after a few.
void generate(const std::shared_ptr<const TokenMasks>& masks, unsigned seed, Timings& timings) {
    GrammarMatcher matcher(masks);
    std::mt19937 random(seed);
    std::vector<uint32_t> mask(kVocab / 32);
    for (int step = 0; step < 200 && !matcher.finished(); ++step) {
        const double start = now_us();
        if (!matcher.fill_mask(mask)) return;
        timings.mask_us.push_back(now_us() - start);
        // The first one after a random place; every so often one that ends a string, where there is one.
        const size_t from = random() % kVocab;
        TokenId chosen = -1;
        for (size_t i = 0; i < kVocab; ++i) {
            const auto id = static_cast<TokenId>((from + i) % kVocab);
            if (((mask[static_cast<size_t>(id) / 32] >> (id % 32)) & 1U) == 0) continue;
            const bool ends_string = masks->trie().bytes(id).starts_with('"');
            if (chosen < 0 || ends_string) chosen = id;
            if (ends_string || step % 6 != 0) break;
        }
        const double before = now_us();
        matcher.accept(chosen);
        timings.accept_us.push_back(now_us() - before);
    }
}

void measure(std::string_view name, const Result<text::CompiledGrammarPtr>& grammar, double compile_us,
             const std::shared_ptr<const TokenTrie>& trie) {
    if (!grammar) return fmt::print("{}: {}\n", name, grammar.error().message);
    const auto masks = std::make_shared<const TokenMasks>(*grammar, trie);
    Timings first;
    Timings later;
    generate(masks, 0, first);
    for (unsigned i = 1; i <= kRequests; ++i) generate(masks, i, later);
    fmt::print("{}: compiled in {:.2f} ms, {:.1f} MiB of masks kept\n", name, compile_us / 1e3,
               static_cast<double>(masks->kept_bytes()) / (1 << 20));
    first.print("first answer");
    later.print("later answers");
}

constexpr std::string_view kTool = R"({"type": "object", "properties": {
    "location": {"type": "string", "description": "City and country"},
    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    "days": {"type": "integer", "minimum": 1, "maximum": 14},
    "details": {"type": "object", "properties": {"hourly": {"type": "boolean"},
        "note": {"type": "string", "maxLength": 200},
        "fields": {"type": "array", "items": {"type": "string", "enum": ["temperature", "wind", "rain"]}, "maxItems": 5}},
        "required": ["hourly", "note", "fields"], "additionalProperties": false}},
    "required": ["location", "unit", "days", "details"], "additionalProperties": false})";

template <typename Compile>
void run(std::string_view name, const std::shared_ptr<const TokenTrie>& trie, Compile compile) {
    (void)compile();  // memory and caches are warm in a server
    const double start = now_us();
    const auto grammar = compile();
    measure(name, grammar, now_us() - start, trie);
}

// How long it takes to refuse, or take, what is as large as it may be.
template <typename Compile>
void run_hostile(std::string_view name, Compile compile) {
    const double start = now_us();
    const auto grammar = compile();
    fmt::print("{}: {:.1f} ms, {}\n", name, (now_us() - start) / 1e3, grammar ? "compiled" : grammar.error().message);
}

void run_all_hostile() {
    std::string words = "root ::= \"x\"";
    std::string endings = "root ::= \"x\"";
    std::string ranges = "root ::= (\"x\"";
    std::string opened;
    std::string closed;
    for (int i = 0; i < 20'000; ++i) words += fmt::format(" | \"w{}\"", i * 7919 % 1'000'003);
    for (int i = 0; i < 16'000; ++i) endings += fmt::format(" | \"{}\" [0-9]*", i);
    for (int i = 0; i < 12'000; ++i) ranges += fmt::format(" | [{}-z] [a-{}]", "abcdefgh"[i % 8], "stuvwxyz"[i % 7]);
    for (int i = 0; i < 60; ++i) opened += R"({"anyOf": [{"type": "string"}, {"items": )";
    for (int i = 0; i < 60; ++i) closed += "}]}";
    run_hostile("20,000 alternatives", [&] { return text::compile_gbnf(words); });
    run_hostile("16,000 with the same end", [&] { return text::compile_gbnf(endings); });
    run_hostile("12,000 that overlap", [&] { return text::compile_gbnf(ranges + ")*"); });
    run_hostile("exponential", [] { return text::compile_gbnf("root ::= [ab]* \"a\" [ab]{40}"); });
    run_hostile("deep", [&] { return text::compile_json_schema(opened + "true" + closed); });
}

void run_all_hostile_schemas() {
    // Each level has twice the alternatives of the one before.
    std::string doubling = R"({"$ref": "#/$defs/d0", "$defs": {"d40": {"type": "null"})";
    for (int i = 0; i < 40; ++i) {
        doubling += fmt::format(R"(, "d{0}": {{"anyOf": [{{"allOf": [{{"$ref": "#/$defs/d{1}"}}, {{"title": "a"}}]}},)"
                                R"( {{"allOf": [{{"$ref": "#/$defs/d{1}"}}, {{"title": "b"}}]}}]}})",
                                i, i + 1);
    }
    std::string values = R"({"enum": [0)";
    std::string words = R"({"enum": ["")";
    std::string members = R"({"type": "object", "properties": {"": true)";
    std::string options = R"({"anyOf": [false)";
    for (int i = 1; i < 60'000; ++i) values += fmt::format(",{}", i * 97);
    for (int i = 1; i < 9'000; ++i) words += fmt::format(",\"a word with number {}\"", i * 7919 % 1'000'003);
    for (int i = 1; i < 2'000; ++i)
        members +=
            fmt::format(R"(, "k{}": {{"type": "string", "pattern": "^(a|b)*a{{{}}}$", "maxLength": 900}})", i, i);
    for (int i = 1; i < 1'500; ++i) {
        options += fmt::format(R"(, {{"type": "object", "properties": {{"a": {{"type": "number", "minimum": {0}.5}},)"
                               R"( "b": {{"type": "string", "pattern": "x{{{0}}}"}}}}}})",
                               i);
    }
    run_hostile("alternatives that double", [&] { return text::compile_json_schema(doubling + "}}"); });
    run_hostile("60,000 values", [&] { return text::compile_json_schema(values + "]}"); });
    run_hostile("9,000 words", [&] { return text::compile_json_schema(words + "]}"); });
    run_hostile("2,000 patterns", [&] { return text::compile_json_schema(members + "}}"); });
    run_hostile("1,500 objects", [&] { return text::compile_json_schema(options + "]}"); });
    run_hostile("an exponential pattern",
                [] { return text::compile_json_schema(R"({"type": "string", "pattern": "^(a|b)*a(a|b){25}$"})"); });
    run_hostile("512 KiB of brackets", [] { return text::compile_json_schema(std::string(500'000, '[')); });
}

void run_all() {
    auto tokens = VocabularyMaker().make();
    const double start = now_us();
    const auto trie = std::make_shared<const TokenTrie>(std::move(tokens), std::vector<TokenId>{kVocab - 1});
    fmt::print("trie of {} tokens: {} nodes in {:.0f} ms\n", trie->vocab_size(), trie->nodes().size(),
               (now_us() - start) / 1e3);
    run("tool call", trie, [] { return text::compile_json_schema(kTool); });
    run("any JSON object", trie, [] { return text::compile_json_object(); });
    run("GBNF list", trie, [] { return text::compile_gbnf("root ::= (\"- \" [^\\n]{10,80} \"\\n\"){3,10}"); });
}

}  // namespace

}  // namespace tandem::bench

int main() {
    tandem::bench::run_all();
    tandem::bench::run_all_hostile();
    tandem::bench::run_all_hostile_schemas();
    return 0;
}
