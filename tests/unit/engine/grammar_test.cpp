// Answers that are held to a grammar.
#include <nlohmann/json.hpp>

#include "text/grammar/compiled_grammar.h"
#include "unit/engine/engine_fixture.h"
#include "unit/engine/fragile_device.h"

namespace tandem::engine {
namespace {

class Grammars : public EngineTest {
  protected:
    static Request held(Engine& engine, const text::CompiledGrammarPtr& grammar, std::string_view prompt,
                        uint64_t seed) {
        Request request = sampled(prompt, 120, seed);
        request.ignore_end = false;
        request.grammar = engine.masks_for(grammar).value();
        return request;
    }
};

constexpr const char* kSchema = R"({
    "type": "object",
    "properties": {"kind": {"enum": ["fox", "bear"]}, "age": {"type": "integer", "minimum": 0, "maximum": 20},
                   "tame": {"type": "boolean"}},
    "required": ["kind", "age", "tame"], "additionalProperties": false})";

TEST_F(Grammars, EveryAnswerIsWhatTheSchemaSays) {
    const auto engine = open({.looks_up = true});
    const auto grammar = text::compile_json_schema(kSchema).value();
    std::vector<Ticket> tickets;
    for (uint64_t seed = 0; seed < 6; ++seed) {
        Request request = held(*engine, grammar, "An animal: ", seed);
        request.n = seed == 0 ? 3 : 1;
        tickets.push_back(submit(*engine, request));
    }
    const Ticket free = submit(*engine, ask("An animal: ", 20));
    engine->run_until_idle();
    for (size_t i = 0; i < tickets.size(); ++i) {
        for (int choice = 0; choice < (i == 0 ? 3 : 1); ++choice) {
            const Heard& got = heard(tickets[i], choice);
            ASSERT_TRUE(got.ended_with(FinishReason::stop)) << got.text;
            const auto json = nlohmann::json::parse(got.text, nullptr, false);
            ASSERT_FALSE(json.is_discarded()) << got.text;
            EXPECT_EQ(json.size(), 3U);
            EXPECT_TRUE(json["kind"] == "fox" || json["kind"] == "bear") << got.text;
            EXPECT_TRUE(json["age"].is_number_integer() && json["age"] >= 0 && json["age"] <= 20) << got.text;
            EXPECT_TRUE(json["tame"].is_boolean()) << got.text;
        }
    }
    EXPECT_EQ(heard(free).tokens, answer(*open(), ask("An animal: ", 20)).tokens) << "nobody else is held to it";
}

TEST_F(Grammars, GuessesChangeNothing) {
    const auto plain = open();
    const auto guessing = open({.looks_up = true});
    const auto guided = open({.draft_model = &bundle().model});
    const auto grammar = text::compile_gbnf("root ::= (\"the fox \" | \"the bear \"){6} \".\"").value();
    for (uint64_t seed = 1; seed < 4; ++seed) {
        const Heard expected = answer(*plain, held(*plain, grammar, "Who?", seed));
        EXPECT_TRUE(expected.ended_with(FinishReason::stop));
        EXPECT_EQ(answer(*guessing, held(*guessing, grammar, "Who?", seed)).text, expected.text);
        EXPECT_EQ(answer(*guided, held(*guided, grammar, "Who?", seed)).text, expected.text);
    }
    EXPECT_GT(guessing->stats().accepted_tokens, 0U);
}

TEST_F(Grammars, OneThatCannotBeFollowedEndsItsOwnRequestOnly) {
    std::string rules = "root ::= r0";
    for (int i = 1; i < 600; ++i) rules += fmt::format(" | r{}", i);
    for (int i = 0; i < 600; ++i) rules += fmt::format("\nr{0} ::= \"a\" r{0} \"{0}\" | \"b\"", i);
    const auto engine = open();
    Request hopeless = held(*engine, text::compile_gbnf(rules).value(), "Who?", 1);
    hopeless.n = 2;
    const Ticket refused = submit(*engine, hopeless);
    const Ticket free = submit(*engine, ask("An animal: ", 5));
    engine->run_until_idle();
    for (int choice : {0, 1}) {
        const Heard& got = heard(refused, choice);
        ASSERT_TRUE(got.ended_with(FinishReason::error));
        EXPECT_NE(got.finish->error.find("too many readings"), std::string::npos) << got.finish->error;
        EXPECT_EQ(got.text, "");
    }
    EXPECT_EQ(heard(free).tokens.size(), 5U);
    EXPECT_EQ(engine->audit(), "");
}

// A device begins with the forward pass, and then asks for the masks.
TEST_F(Grammars, AreLookedIntoWhenTheDeviceHasItsWork) {
    FragileDevice device;
    int limited = 0;
    device.watch = [&](const device::Batch& batch, const device::FindAllowed& find_allowed) {
        if (!batch.limits_draws()) return;
        EXPECT_TRUE(find_allowed);
        for (const device::SamplingRow& row : batch.sampling) {
            const auto is_unknown = [](uint32_t word) { return word == 0; };
            if (limited == 0) {
                EXPECT_TRUE(std::all_of(row.allowed.begin(), row.allowed.end(), is_unknown));
            }
        }
        ++limited;
    };
    const auto engine = Engine::open(bundle().model, bundle().tokenizer, device, {.context = 256}).value();
    const auto grammar = text::compile_gbnf("root ::= \"the fox \"{6} \".\"").value();
    const Heard got = answer(*engine, held(*engine, grammar, "Who?", 1));
    EXPECT_EQ(got.text, "the fox the fox the fox the fox the fox the fox .");
    EXPECT_EQ(limited, got.finish->usage.generated_tokens + 1) << "and once for the end";
}

}  // namespace
}  // namespace tandem::engine
