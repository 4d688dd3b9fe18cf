// Templates that try to stall the program, exhaust its memory or overflow its stack.
#include <gtest/gtest.h>

#include "jinja_render.h"

namespace tandem::text::jinja {
namespace {

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::string repeated(const std::string& text, int times) {
    std::string out;
    for (int i = 0; i < times; i++) out += text;
    return out;
}

TEST(JinjaLimits, IntegersThatLeave64BitsAreErrors) {
    for (const char* source : {"{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}",
                               "{{ 4611686018427387904 * 2 }}", "{{ 10 ** 400 }}", "{{ 2 ** 63 }}",
                               "{{ -(-9223372036854775807 - 1) }}", "{{ (-9223372036854775807 - 1) // -1 }}",
                               "{{ (-9223372036854775807 - 1)|abs }}", "{{ [9223372036854775807, 1]|sum }}"}) {
        EXPECT_TRUE(contains(failure(source), "64-bit")) << source << ": " << failure(source);
    }
    EXPECT_EQ(rendered("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
    EXPECT_TRUE(contains(failure("{{ 9223372036854775808 }}"), "does not fit in 64 bits"));
    EXPECT_TRUE(contains(failure("{{ 1e300|int }}"), "does not fit"));
    EXPECT_TRUE(contains(failure("{{ 1 // 0 }}"), "by zero"));
    EXPECT_TRUE(contains(failure("{{ 1 % 0 }}"), "by zero"));
    EXPECT_TRUE(contains(failure("{{ 1.0 % 0 }}"), "modulo"));
}

TEST(JinjaLimits, HugeStringsAndListsAreRefusedBeforeTheyAreBuilt) {
    for (const char* source :
         {"{{ 'a' * 10 ** 9 }}", "{{ [1] * 10 ** 12 }}", "{{ 'a'.center(10 ** 12) }}", "{{ 'a'.zfill(10 ** 15) }}",
          "{{ '%99999999d' % 1 }}", "{{ '{:99999999}'.format('a') }}", "{{ '%.*f' % (10 ** 9, 1.5) }}",
          "{{ 'a'|indent(10 ** 9) }}", "{{ [1]|tojson(indent=10 ** 9) }}", "{{ [1]|batch(10 ** 12, 0)|list }}",
          "{{ [1]|slice(10 ** 12)|list }}", "{{ range(10 ** 9) }}", "{{ 'a\t'.expandtabs(10 ** 9) }}",
          "{{ ('a' * 100000).replace('', 'b' * 100000) }}", "{{ ('b' * 100000).join('a' * 100000) }}",
          "{{ strftime_now('%9999999d') }}"}) {
        std::string message = failure(source);
        EXPECT_TRUE(message.starts_with("chat template, line 1: ")) << source << ": " << message;
    }
}

TEST(JinjaLimits, DoublingAStringEndsAtTheLimitOfMemory) {
    EXPECT_TRUE(contains(failure("{% set n = namespace(s='a') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}"
                                 "{% endfor %}"),
                         "bytes for its values"));
    EXPECT_TRUE(contains(failure("{% set n = namespace(s='a') %}{% for i in range(99) %}{% set n.s %}{{ n.s }}{{ n.s }}"
                                 "{% endset %}{% endfor %}"),
                         "bytes"));
}

TEST(JinjaLimits, TheKeysOfASortAndTheScopesOfMacrosCountToo) {
    const std::string list = "{% set x = range(1000)|list %}";
    const Limits fits_the_list{.value_bytes = 64 << 10};
    EXPECT_TRUE(contains(failure(list + "{{ x|length }}", Json::object(), fits_the_list), "no error: 1000"));
    for (const char* use : {"{{ x|sort }}", "{{ x|groupby('real') }}", "{{ x|unique }}"}) {
        EXPECT_TRUE(contains(failure(list + use, Json::object(), fits_the_list), "bytes for its values")) << use;
    }
    EXPECT_TRUE(contains(failure("{% for i in range(400) %}{% macro m() %}{% endmacro %}{% endfor %}", Json::object(),
                                 {.value_bytes = 128 << 10}),
                         "bytes for its values"));
}

TEST(JinjaLimits, SharedListsDoNotBlowUpWhenPrintedOrCompared) {
    std::string build =
        "{% set n = namespace(x=[], y=[]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}"
        "{% set n.y = [n.y, n.y] %}{% endfor %}";
    for (const char* use :
         {"{{ n.x }}", "{{ n.x|tojson }}", "{{ n.x == n.y }}", "{{ n.x < n.y }}", "{{ n.x|string }}"}) {
        std::string message = failure(build + use, Json::object(), {.steps = 2'000'000});
        EXPECT_TRUE(message.starts_with("chat template, line 1: ")) << use << ": " << message;
    }
    // As keys of a dict, where comparing is not counted: too heavy ones are no keys.
    EXPECT_TRUE(contains(failure("{% set n = namespace(x=(1,)) %}{% for i in range(60) %}{% set n.x = (n.x, n.x) %}"
                                 "{% endfor %}{{ {n.x: 1} }}"),
                         "unhashable"));
}

TEST(JinjaLimits, DeepValuesAreRefused) {
    EXPECT_TRUE(
        contains(failure("{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}"),
                 "levels deep"));
    EXPECT_TRUE(contains(failure("{% set n = namespace(x=1) %}{% for i in range(9999) %}{% set n.x = cycler(n.x) %}"
                                 "{% endfor %}"),
                         "levels deep"));
    Json deep = 1;
    for (int i = 0; i < 200; i++) deep = Json::array({deep});
    EXPECT_TRUE(contains(failure("{{ x }}", {{"x", deep}}), "levels deep"));
}

TEST(JinjaLimits, CyclesThroughNamespacesAndMacrosAreFreedAndNotFollowed) {
    EXPECT_TRUE(contains(failure("{% set n = namespace() %}{% set n.n = n %}{{ n }}"), "contains itself"));
    EXPECT_EQ(rendered("{% set n = namespace(h=none) %}{% for i in range(50000) %}{% set n.h = namespace(next=n.h) %}"
                       "{% endfor %}{{ n.h.next is defined }}"),
              "True");
    EXPECT_EQ(rendered("{% for i in [1] %}{% macro m() %}{{ m }}{% endmacro %}{{ m() }}{{ loop.changed(loop) }}"
                       "{% endfor %}"),
              "<Macro 'm'>True");
}

TEST(JinjaLimits, EndlessWorkIsStopped) {
    std::string loops = repeated("{% for i in range(100000) %}", 4) + repeated("{% endfor %}", 4);
    EXPECT_TRUE(contains(failure(loops, Json::object(), {.steps = 1'000'000}), "steps of work"));
    EXPECT_TRUE(contains(failure("{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}"), "levels deep"));
    // Twenty calls inside of each other, each of which searches a long text from its end.
    EXPECT_TRUE(
        contains(failure("{% for i in range(100000) %}{{ ('a' * 50000).rfind('b' ~ 'a' * 20000) }}{% endfor %}"),
                 "steps of work"));
}

TEST(JinjaLimits, OutputIsBounded) {
    EXPECT_TRUE(
        contains(failure("{% for i in range(1000) %}0123456789{% endfor %}", Json::object(), {.output_bytes = 5000}),
                 "longer than 5000 bytes"));
}

TEST(JinjaLimits, NestedSourceIsRefused) {
    for (const std::string& source :
         {"{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}",
          "{{ " + repeated("[", 5000) + repeated("]", 5000) + " }}", "{{ " + repeated("-", 5000) + "1 }}",
          "{{ " + repeated("1 if 1 else ", 5000) + "1 }}", repeated("{% if 1 %}", 5000) + repeated("{% endif %}", 5000),
          "{{ " + repeated("f(", 5000) + repeated(")", 5000) + " }}",
          "{% for " + repeated("(", 5000) + "a" + repeated(")", 5000) + " in x %}{% endfor %}"}) {
        EXPECT_TRUE(contains(failure(source), "nested more than")) << source.substr(0, 30) << ": " << failure(source);
    }
}

TEST(JinjaLimits, LongChainsAreFine) {
    EXPECT_EQ(rendered("{{ 1" + repeated(" + 1", 20000) + " }}"), "20001");
    EXPECT_EQ(rendered("{{ 'a'" + repeated("|string", 20000) + " }}"), "a");
    EXPECT_EQ(rendered("{{ " + repeated("not ", 20001) + "1 }}"), "False");
    EXPECT_EQ(rendered("{{ 1" + repeated(" and 1", 20000) + " }}"), "1");
    EXPECT_EQ(rendered("{{ 1" + repeated(" if 1", 20000) + " }}"), "1");
    EXPECT_EQ(rendered("{% if 0 %}" + repeated("{% elif 0 %}", 5000) + "{% else %}x{% endif %}"), "x");
}

TEST(JinjaLimits, FormatsMayBeAnyText) {
    EXPECT_TRUE(contains(failure("{{ '%\u0315' % 1 }}"), "unsupported format character '\u0315'"));
    EXPECT_TRUE(contains(failure("{{ '%\U0001F98A' % 1 }}"), "unsupported format character '\U0001F98A'"));
    EXPECT_TRUE(contains(failure("{{ '{:\u0315}'.format(1) }}"), "invalid format specifier"));
    EXPECT_TRUE(contains(failure("{{ '%(\u0315' % 1 }}"), "incomplete format key"));
}

TEST(JinjaLimits, TheLargestSourceIsRead) {
    EXPECT_TRUE(contains(failure(std::string(kMaxSourceBytes + 1, 'a')), "bytes, more than"));
    EXPECT_EQ(rendered(std::string(kMaxSourceBytes, 'a')).size(), kMaxSourceBytes);
}

}  // namespace
}  // namespace tandem::text::jinja
