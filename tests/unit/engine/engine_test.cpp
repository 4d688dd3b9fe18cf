#include "engine/engine.h"

#include <thread>

#include "unit/engine/engine_fixture.h"
#include "unit/engine/fragile_device.h"

namespace tandem::engine {
namespace {

const std::vector<std::string> kPrompts = {
    "Once upon a time there was a fox who",
    "The king",
    "Lily and Tom went to the park. They saw a big dog and Tom said that",
    "One day, a bird wanted to fly over the sea, but",
    "There was an old clock in the house at the end of the road and every night it",
    "A",
};

TEST_F(EngineTest, ABatchGivesEveryoneTheTextTheyGetAlone) {
    std::vector<std::vector<TokenId>> alone;
    std::vector<Request> requests;
    for (size_t i = 0; i < kPrompts.size(); ++i) {
        Request request = i % 2 == 0 ? ask(kPrompts[i], 12 + static_cast<int>(i)) : sampled(kPrompts[i], 14, i);
        if (i == 3) request.sampling.top_k = 20;
        if (i == 4) request.sampling.repetition_penalty = 1.2F;
        requests.push_back(request);
        alone.push_back(answer(*open(), request).tokens);
        EXPECT_EQ(std::ssize(alone.back()), request.max_tokens);
    }
    for (int rows : {7, 256}) {
        const auto engine = open({.rows = rows});
        std::vector<Ticket> ids;
        ids.reserve(requests.size());
        for (const Request& request : requests) ids.push_back(submit(*engine, request));
        engine->run_until_idle();
        for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(heard(ids[i]).tokens, alone[i]) << kPrompts[i];
        EXPECT_EQ(engine->stats().running, 0);
        EXPECT_EQ(engine->stats().cache_usage, 0);
    }
}

TEST_F(EngineTest, TwentyTurnsRunOnlyWhatIsNew) {
    const auto engine = open({.context = 1024});
    std::vector<TokenId> conversation = bundle().tokenizer.encode("I have a cat.");
    size_t known = 0;
    for (int turn = 0; turn < 20; ++turn) {
        Request request;
        request.prompt = conversation;
        request.max_tokens = 4 + turn % 5;
        request.ignore_end = true;
        const Heard heard = answer(*engine, request);
        ASSERT_TRUE(heard.finish);
        EXPECT_EQ(heard.finish->usage.cached_tokens, static_cast<int>(known)) << "turn " << turn;
        conversation.insert(conversation.end(), heard.tokens.begin(), heard.tokens.end());
        known = conversation.size() - 1;  // the last token was drawn but never run
        const auto more = bundle().tokenizer.encode(" And then?", {.add_special = false});
        conversation.insert(conversation.end(), more.begin(), more.end());
    }
    // The same from nothing gives the same.
    Request last;
    last.prompt = conversation;
    last.max_tokens = 8;
    EXPECT_EQ(answer(*engine, last).tokens, answer(*open({.context = 1024}), last).tokens);
}

TEST_F(EngineTest, ASystemPromptIsRunOnce) {
    const std::string system = "Rules: the fox is red, the bear is brown, the owl is wise and nobody may be sad. ";
    const int shared = static_cast<int>(bundle().tokenizer.encode(system).size());
    for (const DType dtype : {DType::f16, DType::q8_0}) {
        SCOPED_TRACE(name(dtype));
        const auto engine = open({.kv_dtype = dtype});
        answer(*engine, ask(system + "The fox", 4));
        const Heard second = answer(*engine, ask(system + "A bear", 4));
        EXPECT_GE(second.finish->usage.cached_tokens, shared - 2);
        EXPECT_EQ(second.tokens, answer(*open({.kv_dtype = dtype}), ask(system + "A bear", 4)).tokens);

        Request salted = ask(system + "The fox", 4);
        salted.salt = "somebody else";
        EXPECT_EQ(answer(*engine, salted).finish->usage.cached_tokens, 0);
    }
}

TEST_F(EngineTest, SeveralChoicesAreThoseOfOtherSeeds) {
    const auto engine = open({.rows = 16});
    Request request = sampled(kPrompts[2], 12, 40);
    request.n = 4;
    const Ticket id = submit(*engine, request);
    const Ticket beside = submit(*engine, ask(kPrompts[0], 20));
    engine->run_until_idle();
    for (int choice = 0; choice < 4; ++choice) {
        EXPECT_EQ(heard(id, choice).tokens,
                  answer(*open(), sampled(kPrompts[2], 12, 40 + static_cast<uint64_t>(choice))).tokens);
        EXPECT_TRUE(heard(id, choice).ended_with(FinishReason::length));
    }
    EXPECT_EQ(heard(beside).tokens, answer(*open(), ask(kPrompts[0], 20)).tokens);
    EXPECT_EQ(engine->audit(), "");
}

TEST_F(EngineTest, WhoLosesItsBlocksGetsTheSameText) {
    const auto engine = open({.context = 128, .sequences = 6, .rows = 32, .cache_tokens = 128, .block_tokens = 8});
    std::vector<Ticket> ids;
    ids.reserve(kPrompts.size());
    for (const std::string& prompt : kPrompts) ids.push_back(submit(*engine, ask(prompt, 40)));
    engine->run_until_idle();
    EXPECT_GT(engine->stats().preemptions, 0U);
    for (size_t i = 0; i < ids.size(); ++i)
        EXPECT_EQ(heard(ids[i]).tokens, answer(*open(), ask(kPrompts[i], 40)).tokens) << kPrompts[i];
    EXPECT_EQ(engine->audit(), "");
}

TEST_F(EngineTest, TokensCountWhenTheyCome) {
    const auto engine = open();
    const Request request = ask(kPrompts[0], 20);
    const Ticket id = submit(*engine, request);
    while (heard(id).tokens.size() < 5) ASSERT_TRUE(engine->step());
    EXPECT_EQ(engine->stats().prompt_tokens, request.prompt.size());
    EXPECT_EQ(engine->stats().generated_tokens, heard(id).tokens.size());
    engine->run_until_idle();
    EXPECT_EQ(engine->stats().prompt_tokens, request.prompt.size());
    EXPECT_EQ(engine->stats().generated_tokens, heard(id).tokens.size());
}

TEST_F(EngineTest, CancelEndsAnAnswerAtAnyMoment) {
    const auto engine = open();
    const Ticket waiting = submit(*engine, ask(kPrompts[0], 50));
    engine->cancel(waiting.id);
    const Ticket running = submit(*engine, ask(kPrompts[1], 50));
    const Ticket other = submit(*engine, ask(kPrompts[2], 10));
    Request several = ask(kPrompts[3], 50);
    several.n = 3;
    const Ticket choices = submit(*engine, several);
    for (int i = 0; i < 4; ++i) engine->step();
    engine->cancel(running.id);
    engine->cancel(choices.id);
    engine->cancel(12345);  // never heard of
    engine->run_until_idle();
    EXPECT_TRUE(heard(waiting).ended_with(FinishReason::cancelled));
    EXPECT_TRUE(heard(waiting).tokens.empty());
    EXPECT_TRUE(heard(running).ended_with(FinishReason::cancelled));
    EXPECT_FALSE(heard(running).tokens.empty());
    for (int choice = 0; choice < 3; ++choice) EXPECT_TRUE(heard(choices, choice).ended_with(FinishReason::cancelled));
    EXPECT_TRUE(heard(other).ended_with(FinishReason::length));
    EXPECT_EQ(engine->audit(), "");
    EXPECT_EQ(engine->stats().cache_usage, 0);
}

TEST_F(EngineTest, ADeadlineEndsWhatIsLate) {
    const auto engine = open();
    Request late = ask(kPrompts[0], 50);
    late.deadline = std::chrono::steady_clock::now();
    Request early = ask(kPrompts[1], 5);
    early.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
    const Ticket first = submit(*engine, late);
    const Ticket second = submit(*engine, early);
    engine->run_until_idle();
    EXPECT_TRUE(heard(first).ended_with(FinishReason::deadline));
    EXPECT_TRUE(heard(second).ended_with(FinishReason::length));
}

TEST_F(EngineTest, AContextThatIsTooShortIsAnErrorOrTheEnd) {
    const auto engine = open({.context = 16});
    const auto refused = engine->submit(ask(kPrompts[2], 4));
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("do not fit into a context of 16"), std::string::npos);

    Request endless = ask(kPrompts[1], 0);
    const Heard heard = answer(*engine, endless);
    EXPECT_TRUE(heard.ended_with(FinishReason::length));
    EXPECT_EQ(heard.tokens.size(), 16 - endless.prompt.size() + 1);

    endless.shifts_context = true;
    endless.max_tokens = 50;
    endless.keep = 2;
    const Heard shifted = answer(*engine, endless);
    EXPECT_TRUE(shifted.ended_with(FinishReason::length));
    EXPECT_EQ(shifted.tokens.size(), 50U);
    EXPECT_EQ(
        std::vector(shifted.tokens.begin(), shifted.tokens.begin() + static_cast<std::ptrdiff_t>(heard.tokens.size())),
        heard.tokens);
}

TEST_F(EngineTest, RefusesWhatCannotBe) {
    const auto engine = open({.sequences = 2});
    EXPECT_FALSE(engine->submit({}));
    Request request = ask(kPrompts[0], 4);
    request.n = 3;
    EXPECT_FALSE(engine->submit(request)) << "more choices than sequences";
    request.n = 1;
    request.prompt.push_back(bundle().model.vocab);
    EXPECT_FALSE(engine->submit(request));
    request.prompt.back() = 0;
    request.sampling.logit_bias = {{-1, 1.0F}};
    EXPECT_FALSE(engine->submit(request));
    EXPECT_FALSE(Engine::open(bundle().model, {}, cpu(), {.context = -1}));
    EXPECT_FALSE(Engine::open(bundle().model, {}, cpu(), {.sequences = 0}));

    const auto full = open({.queue = 1});
    submit(*full, ask(kPrompts[0], 1));
    EXPECT_FALSE(full->submit(ask(kPrompts[0], 1)));
    full->run_until_idle();
    EXPECT_TRUE(full->submit(ask(kPrompts[0], 1)));
}

TEST_F(EngineTest, StopTokensAndBiasEndAndSteer) {
    const Heard whole = answer(*open(), ask(kPrompts[0], 12));
    Request request = ask(kPrompts[0], 12);
    request.stop_tokens = {whole.tokens[5]};
    const Heard stopped = answer(*open(), request);
    EXPECT_TRUE(stopped.ended_with(FinishReason::stop));
    EXPECT_LE(stopped.tokens.size(), 5U);

    request.stop_tokens.clear();
    request.sampling.logit_bias = {{whole.tokens[0], -1000.0F}};
    EXPECT_NE(answer(*open(), request).tokens[0], whole.tokens[0]);
}

TEST_F(EngineTest, ShowsTheControlTokensThatItIsTold) {
    const TokenId mark = bundle().tokenizer.find("<start_of_turn>").value();
    Request request = ask(kPrompts[0], 3);
    request.sampling.logit_bias = {{mark, 1000.0F}};
    EXPECT_EQ(answer(*open(), request).text, "");
    request.shown = {mark};
    EXPECT_EQ(answer(*open(), request).text, "<start_of_turn><start_of_turn><start_of_turn>");
}

TEST_F(EngineTest, MayReadThePromptAlone) {
    Request request = ask(kPrompts[0], 1);
    request.echo = true;
    request.prompt_only = true;
    request.logprobs = 0;
    const Heard prompt = answer(*open(), request);
    EXPECT_EQ(prompt.text, kPrompts[0]);
    EXPECT_EQ(prompt.tokens, request.prompt);
    EXPECT_EQ(prompt.logprobs.size(), request.prompt.size());
    EXPECT_TRUE(prompt.ended_with(FinishReason::length));
    EXPECT_EQ(prompt.finish->usage.generated_tokens, 0);
}

TEST_F(EngineTest, EchoBeginsWithThePrompt) {
    Request request = ask(kPrompts[0], 6);
    request.continues_text = true;
    const Heard plain = answer(*open(), request);
    request.echo = true;
    request.n = 2;
    const auto engine = open();
    const Ticket id = submit(*engine, request);
    engine->run_until_idle();
    for (int choice = 0; choice < 2; ++choice) EXPECT_EQ(heard(id, choice).text, kPrompts[0] + plain.text);
}

TEST_F(EngineTest, GoesOnAfterTheDeviceWasLost) {
    FragileDevice device;
    const auto engine =
        Engine::open(bundle().model, bundle().tokenizer, device, {.context = 256, .sequences = 1}).value();
    const Heard expected = answer(*engine, ask(kPrompts[0], 6));
    const Ticket failing = submit(*engine, ask(kPrompts[1], 6));
    const Ticket waiting = submit(*engine, ask(kPrompts[0], 6));
    engine->step();
    device.lost = true;
    engine->run_until_idle();
    EXPECT_TRUE(heard(failing).ended_with(FinishReason::error));
    EXPECT_EQ(heard(failing).finish->error, "the device is lost");
    EXPECT_EQ(heard(waiting).tokens, expected.tokens);
    EXPECT_EQ(heard(waiting).finish->usage.cached_tokens, 0) << "what the lost device held is gone";
    EXPECT_EQ(device.caches, 2);
}

TEST_F(EngineTest, OtherThreadsMaySubmitAndCancel) {
    const auto engine = open({.sequences = 4});
    std::thread loop([&] { engine->run(); });
    std::atomic<int> ended = 0;
    std::vector<std::thread> users;
    users.reserve(4);
    for (int user = 0; user < 4; ++user) {
        users.emplace_back([&, user] {
            for (int i = 0; i < 3; ++i) {
                std::atomic<bool> done = false;
                Request request = ask(kPrompts[static_cast<size_t>(user)], 3 + i);
                request.on_event = [&](const Event& event) {
                    if (event.finish == nullptr) return;
                    ++ended;
                    done = true;
                    done.notify_one();
                };
                const RequestId id = engine->submit(request).value();
                if (i == 1) engine->cancel(id);
                done.wait(false);
            }
        });
    }
    for (std::thread& user : users) user.join();
    engine->stop();
    loop.join();
    EXPECT_EQ(ended, 12);
    EXPECT_EQ(engine->audit(), "");
}

}  // namespace
}  // namespace tandem::engine
