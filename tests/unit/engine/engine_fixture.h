// The embedded model on the CPU, for tests of the engine: requests by text, answers collected.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cpu/backend.h"
#include "engine/bundle.h"
#include "engine/engine.h"

namespace tandem::engine {

// All that was heard of one choice.
struct Heard {
    std::string text;
    std::vector<TokenId> tokens;
    std::vector<TokenLogprobs> logprobs;
    std::optional<Finish> finish;

    bool ended_with(FinishReason reason) const { return finish && finish->reason == reason; }
};

class EngineTest : public testing::Test {
  protected:
    // Its weights are f16: their products are the same for any number of rows, so that a batch changes no token. Those
    // of int8 are added up in another order from five rows on, and two tokens that are about as likely may change
    // places.
    static const Bundle& bundle() {
        static const Bundle opened = open_bundle(TANDEM_SOURCE_DIR "/assets/tales-f16.gguf").value();
        return opened;
    }
    static device::Backend& cpu() {
        static const auto opened = tandem::cpu::make_backend({.threads = 1}).value();
        return *opened;
    }

    static std::unique_ptr<Engine> open(EngineOptions options = {}) {
        if (options.context == 0) options.context = 256;
        auto opened = Engine::open(bundle().model, bundle().tokenizer, cpu(), options);
        EXPECT_TRUE(opened) << opened.error().message;
        return std::move(*opened);
    }

    static Request ask(std::string_view text, int max_tokens) {
        Request request;
        request.prompt = bundle().tokenizer.encode(text);
        request.max_tokens = max_tokens;
        request.ignore_end = true;
        return request;
    }

    static Request sampled(std::string_view text, int max_tokens, uint64_t seed) {
        Request request = ask(text, max_tokens);
        request.sampling.temperature = 1;
        request.sampling.seed = seed;
        return request;
    }

    // A request under way: engines count their ids each for itself.
    struct Ticket {
        RequestId id;
        int number;
    };

    Ticket submit(Engine& engine, Request request) {
        const int number = submitted_++;
        request.on_event = [this, number](const Event& event) {
            Heard& heard = heard_[{number, event.choice}];
            EXPECT_FALSE(heard.finish) << "an event after the last";
            heard.text += event.text;
            heard.tokens.insert(heard.tokens.end(), event.tokens.begin(), event.tokens.end());
            heard.logprobs.insert(heard.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
            if (event.finish != nullptr) heard.finish = *event.finish;
        };
        auto id = engine.submit(std::move(request));
        EXPECT_TRUE(id) << id.error().message;
        return {id.value(), number};
    }

    Heard answer(Engine& engine, Request request) {
        const Ticket ticket = submit(engine, std::move(request));
        engine.run_until_idle();
        EXPECT_EQ(engine.audit(), "");
        return heard(ticket);
    }

    // What came of it so far.
    const Heard& heard(Ticket ticket, int choice = 0) { return heard_[{ticket.number, choice}]; }

  private:
    int submitted_ = 0;
    std::map<std::pair<int, int>, Heard> heard_;
};

}  // namespace tandem::engine
