// The functions of tandem/tandem.h: arguments checked, exceptions and Errors turned into what C understands.
#include <tandem/tandem.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>

#include "base/log.h"
#include "base/module.h"
#include "lib/model.h"
#include "lib/request.h"

struct tandem_model {
    std::shared_ptr<tandem::lib::Model> model;
};

struct tandem_request {
    explicit tandem_request(std::shared_ptr<tandem::lib::Model> model) : request(std::move(model)) {}

    tandem::lib::Request request;
};

namespace tandem::lib {

namespace {

std::string& last_error() {
    thread_local std::string text;
    return text;
}

// What a function of the interface does: `failed` when `call`, which gives a Result, does not succeed.
template <typename T, typename Call>
T guarded(T failed, const Call& call) {
    try {
        auto result = call();
        if (result) return static_cast<T>(*std::move(result));
        last_error() = std::move(result).error().message;
    } catch (const std::bad_alloc&) {
        last_error() = "out of memory";
    } catch (const std::exception& error) {
        last_error() = error.what();
    }
    return failed;
}

Status not_null(const void* pointer, const char* what) {
    if (pointer == nullptr) return fail("{} is NULL", what);
    return Ok{};
}

template <typename T>
int64_t copy(const T* from, size_t count, T* to, size_t capacity) {
    if (to != nullptr) std::copy_n(from, std::min(count, capacity), to);
    return static_cast<int64_t>(count);
}

// spdlog's first default writes to standard output, which is the program's. One that the program has set is left to it.
void log_to_standard_error() {
    static std::once_flag once;
    std::call_once(once, [] {
        if (spdlog::default_logger()->name().empty()) log::init(spdlog::level::warn);
    });
}

Request::OnText listener_of(tandem_on_text on_text, void* user) {
    if (on_text == nullptr) return {};
    return [=](std::string_view piece) { return on_text(piece.data(), piece.size(), user) == 0; };
}

Result<std::vector<float>> embed(Model& model, const char* text) {
    const engine::Bundle& bundle = model.bundle();
    auto made = bundle.prompts.text(text, {.context = model.engine().context(), .vocab = bundle.model.vocab});
    if (!made) return Error{std::move(made).error().message};
    engine::Request request;
    request.prompt = std::move(made->tokens);
    request.embed = engine::Pooling::mean;
    engine::Finish finish = TRY(model.run(
        std::move(request), {.on_id = [](engine::RequestId) {}, .on_text = [](std::string_view) { return true; }}));
    return std::move(finish.embedding);
}

}  // namespace

}  // namespace tandem::lib

using namespace tandem;
using namespace tandem::lib;

const char* tandem_version(void) {
    return build_version().data();
}

const char* tandem_error(void) {
    return last_error().c_str();
}

tandem_model* tandem_open(const char* model, const char* const* options) {
    return guarded<tandem_model*>(nullptr, [&]() -> Result<tandem_model*> {
        log_to_standard_error();
        const OpenOptions read = TRY(read_options(options));
        std::shared_ptr<Model> opened = TRY(Model::open(model == nullptr ? "" : model, read));
        return new tandem_model{std::move(opened)};
    });
}

void tandem_close(tandem_model* model) {
    delete model;
}

const char* tandem_model_name(const tandem_model* model) {
    return model == nullptr ? "" : model->model->bundle().model.name.c_str();
}

const char* tandem_model_device(const tandem_model* model) {
    return model == nullptr ? "" : model->model->device_name().c_str();
}

const char* tandem_model_notes(const tandem_model* model) {
    return model == nullptr ? "" : model->model->notes().c_str();
}

int64_t tandem_model_context(const tandem_model* model) {
    return guarded(int64_t{-1}, [&]() -> Result<int64_t> {
        TRY(not_null(model, "the model"));
        return model->model->engine().context();
    });
}

int64_t tandem_tokenize(const tandem_model* model, const char* text, int special, int32_t* tokens, size_t capacity) {
    return guarded(int64_t{-1}, [&]() -> Result<int64_t> {
        TRY(not_null(model, "the model"));
        TRY(not_null(text, "the text"));
        const std::vector<text::TokenId> ids =
            model->model->bundle().tokenizer.encode(text, {.add_special = special != 0, .parse_special = special != 0});
        return copy(ids.data(), ids.size(), tokens, capacity);
    });
}

int64_t tandem_detokenize(const tandem_model* model, const int32_t* tokens, size_t count, int special, char* text,
                          size_t capacity) {
    return guarded(int64_t{-1}, [&]() -> Result<int64_t> {
        TRY(not_null(model, "the model"));
        if (count > 0) TRY(not_null(tokens, "the list of tokens"));
        const std::string decoded = model->model->bundle().tokenizer.decode({tokens, count}, special == 0);
        copy(decoded.c_str(), decoded.size() + 1, text, capacity);
        return static_cast<int64_t>(decoded.size());
    });
}

int64_t tandem_embed(tandem_model* model, const char* text, float* values, size_t capacity) {
    return guarded(int64_t{-1}, [&]() -> Result<int64_t> {
        TRY(not_null(model, "the model"));
        TRY(not_null(text, "the text"));
        if (capacity == 0) return static_cast<int64_t>(model->model->bundle().model.dim);
        const std::vector<float> embedding = TRY(embed(*model->model, text));
        return copy(embedding.data(), embedding.size(), values, capacity);
    });
}

tandem_request* tandem_request_new(tandem_model* model) {
    return guarded<tandem_request*>(nullptr, [&]() -> Result<tandem_request*> {
        TRY(not_null(model, "the model"));
        return new tandem_request(model->model);
    });
}

void tandem_request_free(tandem_request* request) {
    delete request;
}

int tandem_request_message(tandem_request* request, const char* role, const char* content) {
    return guarded(-1, [&]() -> Result<int> {
        TRY(not_null(request, "the request"));
        TRY(not_null(role, "the role"));
        TRY(not_null(content, "the content"));
        TRY(request->request.add_message(role, content));
        return 0;
    });
}

int tandem_request_text(tandem_request* request, const char* text) {
    return guarded(-1, [&]() -> Result<int> {
        TRY(not_null(request, "the request"));
        TRY(not_null(text, "the text"));
        TRY(request->request.set_text(text));
        return 0;
    });
}

void tandem_request_clear(tandem_request* request) {
    if (request != nullptr) request->request.clear();
}

int tandem_request_keep(tandem_request* request) {
    return guarded(-1, [&]() -> Result<int> {
        TRY(not_null(request, "the request"));
        TRY(request->request.keep_answer());
        return 0;
    });
}

int tandem_request_tools(tandem_request* request, const char* tools) {
    return guarded(-1, [&]() -> Result<int> {
        TRY(not_null(request, "the request"));
        TRY(request->request.set_tools(tools == nullptr ? "" : tools));
        return 0;
    });
}

int tandem_request_set(tandem_request* request, const char* name, const char* value) {
    return guarded(-1, [&]() -> Result<int> {
        TRY(not_null(request, "the request"));
        TRY(not_null(name, "the name of the setting"));
        TRY(not_null(value, "the value of the setting"));
        TRY(request->request.set(name, value));
        return 0;
    });
}

int64_t tandem_request_prompt(tandem_request* request, int32_t* tokens, size_t capacity) {
    return guarded(int64_t{-1}, [&]() -> Result<int64_t> {
        TRY(not_null(request, "the request"));
        const text::Prompt prompt = TRY(request->request.prompt());
        return copy(prompt.tokens.data(), prompt.tokens.size(), tokens, capacity);
    });
}

int tandem_request_generate(tandem_request* request, tandem_on_text on_text, void* user) {
    return guarded(-1, [&]() -> Result<int> {
        TRY(not_null(request, "the request"));
        TRY(request->request.generate(listener_of(on_text, user)));
        return 0;
    });
}

int tandem_request_on_reasoning(tandem_request* request, tandem_on_text on_reasoning, void* user) {
    return guarded(-1, [&]() -> Result<int> {
        TRY(not_null(request, "the request"));
        request->request.set_on_reasoning(listener_of(on_reasoning, user));
        return 0;
    });
}

int tandem_request_cancel(tandem_request* request) {
    return guarded(-1, [&]() -> Result<int> {
        TRY(not_null(request, "the request"));
        return request->request.cancel() ? 1 : 0;
    });
}

const char* tandem_request_answer(const tandem_request* request) {
    return request == nullptr ? "" : request->request.answer().text.c_str();
}

const char* tandem_request_reasoning(const tandem_request* request) {
    return request == nullptr ? "" : request->request.answer().reasoning.c_str();
}

const char* tandem_request_calls(const tandem_request* request) {
    return request == nullptr ? "" : request->request.answer().calls_json.c_str();
}

const char* tandem_request_finish(const tandem_request* request) {
    return request == nullptr ? "" : request->request.answer().finish.c_str();
}

int tandem_request_usage(const tandem_request* request, tandem_usage* usage) {
    return guarded(-1, [&]() -> Result<int> {
        TRY(not_null(request, "the request"));
        TRY(not_null(usage, "the usage"));
        const Answer& answer = request->request.answer();
        const tandem_usage all = {.size = usage->size,
                                  .prompt_tokens = answer.usage.prompt_tokens,
                                  .cached_tokens = answer.usage.cached_tokens,
                                  .answer_tokens = answer.usage.generated_tokens,
                                  .seed = answer.seed,
                                  .prompt_seconds = answer.timing.first_token,
                                  .answer_seconds = answer.timing.decode};
        if (usage->size < sizeof(usage->size))
            return fail("usage.size is {}: set it to sizeof(tandem_usage)", usage->size);
        std::memcpy(usage, &all, std::min(usage->size, sizeof(all)));
        return 0;
    });
}
