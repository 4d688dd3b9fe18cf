#include "engine/generate.h"

namespace tandem::engine {

double Generation::generate_rate() const {
    return tokens.size() > 1 && generate_seconds > 0 ? static_cast<double>(tokens.size() - 1) / generate_seconds : 0;
}

Result<Generation> generate(Engine& engine, Request request, const GenerateOptions& options) {
    CHECK(request.n == 1, "one answer");
    Generation result;
    bool ended = false;
    std::string error;
    request.on_event = [&](const Event& event) {
        result.text += event.text;
        result.tokens.insert(result.tokens.end(), event.tokens.begin(), event.tokens.end());
        if (!event.text.empty() && options.on_text) options.on_text(event.text);
        if (event.finish == nullptr) return;
        ended = true;
        error = event.finish->error;
        result.reason = event.finish->reason;
        result.prompt_tokens = event.finish->usage.prompt_tokens;
        result.cached_tokens = event.finish->usage.cached_tokens;
        result.drafted_tokens = event.finish->usage.drafted_tokens;
        result.accepted_tokens = event.finish->usage.accepted_tokens;
        result.prompt_seconds = event.finish->timing.first_token;
        result.generate_seconds = event.finish->timing.decode;
    };
    const RequestId id = TRY(engine.submit(std::move(request)));
    while (!ended) {
        if (options.cancelled != nullptr && options.cancelled->load(std::memory_order_relaxed)) engine.cancel(id);
        engine.step();
    }
    if (result.reason == FinishReason::error) return Error{error};
    return result;
}

}  // namespace tandem::engine
