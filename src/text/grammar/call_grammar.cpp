#include "text/grammar/call_grammar.h"

#include <fmt/format.h>

#include "text/grammar/json_pieces.h"
#include "text/grammar/schema.h"
#include "text/grammar/schema_translator.h"

namespace tandem::text::grammar {

namespace {

using Form = CallSyntax::Form;

constexpr uint32_t kMostCalls = 16;  // at once

// Marks that a reader looks for wherever they come, also within strings.
std::vector<std::string_view> marks_of_end(const CallRules& rules, const CallSyntax& syntax) {
    if (rules.format.calls == CallStyle::harmony)
        return {kHarmonyStart, kHarmonyChannel, kHarmonyMessage, kHarmonyEnd, kHarmonyCall, kHarmonyReturn};
    if (syntax.form == Form::elements) return {mark_of(syntax.after_value), mark_of(syntax.end)};
    if (syntax.form == Form::called) return {kTextMark, mark_of(syntax.end)};
    return {};
}

Notation notation_of(const CallRules& rules, const CallSyntax& syntax) {
    const std::vector<std::string_view> never = marks_of_end(rules, syntax);
    if (syntax.form == Form::called) return {.is_json = false, .quote = kTextMark, .never = never};
    return {.never = never};
}

class CallTranslator {
  public:
    explicit CallTranslator(const CallRules& rules)
        : rules_(rules),
          syntax_(call_syntax(rules.format.calls)),
          json_(grammar_, notation_of(rules, syntax_)),
          bare_(grammar_, {.is_json = false, .quote = "", .never = marks_of_end(rules, syntax_)}) {}

    Result<Grammar> run() {
        std::vector<NodeId> calls;
        for (const Json& tool : rules_.tools) {
            const auto& name = tool.at("name").get_ref<const std::string&>();
            const auto arguments = arguments_of(tool.value("parameters", Json()));
            if (!arguments) return fail("tool '{}': {}", name, arguments.error().message);
            calls.push_back(TRY(call(name, *arguments)));
        }
        const RuleId root = grammar_.add_rule("root");
        const NodeId made = all(grammar_.shared(grammar_.choice(calls)));
        grammar_.define(root, rules_.with_text ? after_text(made) : made);
        grammar_.set_root(root);
        return std::move(grammar_);
    }

  private:
    Result<NodeId> arguments_of(const Json& parameters) {
        const bool takes_any = !parameters.is_object() || parameters.empty();
        const Json schema = TRY(parse_schema(takes_any ? R"({"type": "object"})" : dump(parameters)));
        SchemaTranslator translator(schema, json_);
        if (syntax_.form != Form::elements) return grammar_.use(TRY(translator.arguments()));
        const ElementMarks marks = {.before_key = syntax_.before_key,
                                    .after_key = syntax_.after_key,
                                    .before_value = syntax_.before_value,
                                    .after_value = syntax_.after_value,
                                    .loose_breaks = syntax_.loose_breaks,
                                    .texts = text_parameters(parameters)};
        return grammar_.use(TRY(translator.elements(marks, bare_)));
    }

    static std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

    NodeId marked(std::string_view written) { return marked_text(grammar_, written, syntax_.loose_breaks); }

    // Without the marks around it.
    Result<NodeId> call(const std::string& name, NodeId arguments) {
        if (syntax_.form == Form::object) {
            const NodeId named = json_.member(json_.value("name"), json_.value(name));
            const NodeId key = json_.value(rules_.format.knows_calls ? syntax_.arguments : "arguments");
            return json_.braces(grammar_.sequence({named, json_.comma(), json_.member(key, arguments)}));
        }
        if (name.find_first_of("<>[]{}") != std::string::npos)
            return fail("tool '{}': the model's form of calls has no way to write its name: rename it", name);
        return grammar_.sequence({marked(syntax_.before_name), grammar_.literal(name), marked(syntax_.after_name),
                                  arguments, marked(syntax_.after_arguments)});
    }

    NodeId all(NodeId call) {
        const uint32_t more = rules_.several && !syntax_.one_only ? kMostCalls - 1 : 0;
        const NodeId begin = syntax_.begins_bare ? Grammar::empty() : marked(syntax_.begin);
        const NodeId end = syntax_.ends_bare ? grammar_.optional(marked(syntax_.end)) : marked(syntax_.end);
        if (syntax_.is_list) {
            const NodeId next = grammar_.sequence({json_.comma(), call});
            const NodeId list = json_.brackets(grammar_.sequence({call, grammar_.repeat(next, 0, more)}));
            return grammar_.sequence({begin, list, end});
        }
        const NodeId one = grammar_.sequence({begin, call, end});
        const NodeId next = grammar_.sequence({marked(syntax_.between), one});
        return grammar_.sequence({one, grammar_.repeat(next, 0, more)});
    }

    // Any number of characters without one of the marks.
    NodeId text_without(std::vector<std::string_view> marks) {
        return JsonPieces(grammar_, {.is_json = false, .quote = "", .never = std::move(marks)}).string();
    }

    NodeId after_text(NodeId calls) {
        if (rules_.format.calls == CallStyle::harmony) return after_messages(calls);
        const CodePoints spaces = {{' ', ' '}, {'\n', '\n'}, {'\r', '\r'}, {'\t', '\t'}};
        const NodeId space = grammar_.repeat(grammar_.characters(spaces), 0, kUnbounded);
        const NodeId text = text_without({mark_of(syntax_.begin)});
        NodeId answer = grammar_.sequence({text, grammar_.optional(calls)});
        if (syntax_.begins_bare) {  // what begins as a call is one
            CodePoints first = spaces;
            first.add('{', '{');
            first.add('[', '[');
            const NodeId other = grammar_.sequence({grammar_.characters(first.complement()), text});
            answer = grammar_.sequence({space, grammar_.choice({grammar_.optional(other), calls})});
        }
        if (!rules_.format.reasons()) return answer;
        const std::string_view end = rules_.format.reasoning_end;
        const NodeId rest = grammar_.optional(grammar_.sequence({marked(end), grammar_.shared(answer)}));
        const NodeId thought = grammar_.sequence({text_without({end}), rest});
        if (rules_.begins_in_reasoning) return thought;
        const NodeId begin = grammar_.sequence({space, marked(rules_.format.reasoning_begin)});
        return grammar_.choice({grammar_.sequence({begin, thought}), grammar_.shared(answer)});
    }

    NodeId after_messages(NodeId calls) {
        const NodeId body = grammar_.shared(text_without(marks_of_end(rules_, syntax_)));
        const NodeId next = grammar_.sequence({body, marked("<|end|><|start|>assistant")});
        const NodeId thought = grammar_.sequence({marked("<|channel|>analysis<|message|>"), next});
        const NodeId preamble = grammar_.sequence({marked("<|channel|>commentary<|message|>"), next});
        const NodeId answer = grammar_.sequence({marked("<|channel|>final<|message|>"), body});
        return grammar_.sequence(
            {grammar_.repeat(grammar_.choice({thought, preamble}), 0, kUnbounded), grammar_.choice({answer, calls})});
    }

    const CallRules& rules_;
    const CallSyntax& syntax_;
    Grammar grammar_;
    JsonPieces json_;
    JsonPieces bare_;
};

}  // namespace

Result<Grammar> translate_calls(const CallRules& rules) {
    return CallTranslator(rules).run();
}

}  // namespace tandem::text::grammar
