// Tags, whitespace and scopes. Most of the language is covered by the cases in jinja_reference_test.cpp.
#include <gtest/gtest.h>

#include "jinja_render.h"

namespace tandem::text::jinja {
namespace {

TEST(JinjaWhitespace, ABlockTakesTheNewlineAfterItAndTheIndentBeforeIt) {
    EXPECT_EQ(rendered("a\n  {% if true %}  \n  b\n  {% endif %}\nc"), "a\n  \n  b\nc");
    EXPECT_EQ(rendered("x {% if true %}y{% endif %}"), "x y");
}

TEST(JinjaWhitespace, SignsOverrideTheRules) {
    EXPECT_EQ(rendered("a \n {%- if true -%} \n b \n {%- endif %}\n c"), "ab c");
    EXPECT_EQ(rendered("  {%+ if true +%}\nb{% endif %}"), "  \nb");
    EXPECT_EQ(rendered("a {{- 'b' -}} \n c"), "abc");
}

TEST(JinjaWhitespace, LineEndsBecomeNewlinesAndTheLastOneGoes) {
    EXPECT_EQ(rendered("a\r\nb\rc\n"), "a\nb\nc");
    EXPECT_EQ(rendered("a\n\n"), "a\n");
}

TEST(JinjaWhitespace, CommentsAndRawBlocks) {
    EXPECT_EQ(rendered("a{# {{ x }} #}\nb"), "ab");
    EXPECT_EQ(rendered("{% raw %}{{ x }}{% y %}{% endraw %}!"), "{{ x }}{% y %}!");
}

TEST(JinjaScopes, WhatALoopSetsStaysInTheLoop) {
    EXPECT_EQ(rendered("{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}"), "231");
    EXPECT_EQ(rendered("{% set n = namespace(x=1) %}{% for i in [1, 2] %}{% set n.x = n.x + i %}{% endfor %}{{ n.x }}"),
              "4");
}

TEST(JinjaScopes, AMacroSeesTheScopeItWasDefinedInAsItIsWhenCalled) {
    EXPECT_EQ(rendered("{% macro m() %}{{ v }}{% endmacro %}{{ m() }}{% set v = 5 %}{{ m() }}"), "5");
    EXPECT_EQ(rendered("{% macro m() %}{{ i }}{% endmacro %}{% for i in [1] %}{{ m() }}{% endfor %}"), "");
    EXPECT_EQ(rendered("{% set n = namespace() %}{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}"
                       "{% set n.m = m %}{% endfor %}{{ n.m() }}"),
              "2");
}

TEST(JinjaMacros, TakeDefaultsKeywordsAndCallers) {
    EXPECT_EQ(rendered("{% macro m(a, b=a, c='z') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=2) }}"),
              "11z 112");
    EXPECT_EQ(rendered("{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, x=2) }}"), "(1,){'x': 2}");
    EXPECT_EQ(rendered("{% macro m(x) %}[{{ caller(x + 1) }}]{% endmacro %}{% call(y) m(1) %}{{ y }}{% endcall %}"),
              "[2]");
}

TEST(JinjaLoops, BreakAndContinueLeaveTheBlocksInBetween) {
    EXPECT_EQ(rendered("{% for i in range(9) %}{% set t %}{% if i == 2 %}{% break %}{% endif %}{% endset %}{{ i }}"
                       "{% endfor %}"),
              "01");
    EXPECT_EQ(
        rendered("{% for i in range(4) %}{% filter upper %}a{% if i % 2 %}{% continue %}{% endif %}{% endfilter %}"
                 "{% endfor %}"),
        "AA");
}

TEST(JinjaErrors, NameTheLine) {
    EXPECT_EQ(failure("a\n{{ x.y }}"), "chat template, line 2: 'x' is undefined");
    EXPECT_EQ(failure("a\n\n{{ {}.a.b }}"), "chat template, line 3: 'dict object' has no attribute 'a'");
    EXPECT_EQ(failure("{% if true %}\n{% endfor %}"), "chat template, line 2: unknown tag 'endfor'");
    EXPECT_EQ(failure("{{ 1 +\n+ }}"), "chat template, line 2: expected an expression, got the end of the tag");
    EXPECT_EQ(failure("\n{{ raise_exception('Roles\nmust alternate') }}"),
              "chat template, line 2: Roles must alternate");
    EXPECT_EQ(failure("{% include 'x' %}"),
              "chat template, line 1: the tag 'include' is not supported: a chat template stands alone");
}

TEST(JinjaErrors, LocateFailuresInsideOfMacros) {
    EXPECT_EQ(failure("{% macro m(x) %}\n{{ x + 1 }}\n{% endmacro %}\n\n{{ m('a') }}").substr(0, 23),
              "chat template, line 2: ");
}

TEST(JinjaFunctions, StrftimeNowUsesTheGivenTime) {
    EXPECT_EQ(rendered("{{ strftime_now('%d %b %Y %%') }}"), "30 Jul 2025 %");
    EXPECT_EQ(rendered("[{{ strftime_now('') }}]"), "[]");
    EXPECT_EQ(rendered("{{ strftime_now('%Z%z|') }}"), "|");
}

TEST(JinjaSandbox, NothingCanBeChangedOrReached) {
    Json variables = {{"l", {1, 2}}, {"d", {{"a", 1}}}};
    EXPECT_EQ(failure("{{ l.append(3) }}", variables),
              "chat template, line 1: access to attribute 'append' of 'list' object is unsafe");
    EXPECT_EQ(failure("{{ d.update({}) }}", variables),
              "chat template, line 1: access to attribute 'update' of 'dict' object is unsafe");
    EXPECT_EQ(failure("{{ ''.__class__.__mro__ }}"),
              "chat template, line 1: access to attribute '__class__' of 'str' object is unsafe");
    EXPECT_EQ(failure("{% set d.a = 2 %}", variables),
              "chat template, line 1: cannot assign attribute 'a' on a dict: only a namespace has attributes that can "
              "be set");
}

TEST(JinjaInput, KeysKeepTheirOrder) {
    EXPECT_EQ(rendered("{{ t|tojson }}", {{"t", Json::parse(R"({"z": 1, "a": {"y": 2, "b": 3}})")}}),
              R"({"z": 1, "a": {"y": 2, "b": 3}})");
}

TEST(JinjaInput, DictsOfManyKeysFindThemAll) {
    Json big = Json::object();
    for (int i = 0; i < 100; i++) big["key" + std::to_string((i * 37) % 100)] = i;
    EXPECT_EQ(rendered("{{ d.key37 }} {{ d['key99'] }} {{ d.nope is defined }} {{ d[1] is defined }} {{ d|length }}",
                       {{"d", big}}),
              "1 27 False False 100");
}

TEST(JinjaInput, TextThatIsNotUtf8IsRefused) {
    EXPECT_EQ(failure("\xff"), "chat template: it is not valid UTF-8");
    EXPECT_EQ(failure("{{ x }}", {{"x", std::string("\xc3")}}),
              "chat template, line 1: a string given to the template is not valid UTF-8");
}

}  // namespace
}  // namespace tandem::text::jinja
