// libtandem for C++17 and later: tandem.h with destructors and exceptions, and nothing else.
#pragma once

#include <tandem/tandem.h>

#include <array>
#include <charconv>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tandem {

class Error : public std::runtime_error {
  public:
    Error() : std::runtime_error(tandem_error()) {}
};

inline int64_t checked(int64_t result) {
    if (result < 0) throw Error();
    return result;
}

class Model {
  public:
    // As tandem_open(): Model("gemma3:4b", {"device=vulkan", "context=4096"}); an empty name is the model in the
    // library.
    explicit Model(const std::string& model = {}, const std::vector<std::string>& options = {}) {
        std::vector<const char*> texts;
        for (const std::string& option : options) texts.push_back(option.c_str());
        texts.push_back(nullptr);
        model_.reset(tandem_open(model.empty() ? nullptr : model.c_str(), texts.data()));
        if (!model_) throw Error();
    }

    std::string name() const { return tandem_model_name(get()); }
    std::string device() const { return tandem_model_device(get()); }
    std::string notes() const { return tandem_model_notes(get()); }
    int64_t context() const { return tandem_model_context(get()); }

    std::vector<int32_t> tokenize(const std::string& text, bool special = true) const {
        std::vector<int32_t> tokens(checked(tandem_tokenize(get(), text.c_str(), special, nullptr, 0)));
        tandem_tokenize(get(), text.c_str(), special, tokens.data(), tokens.size());
        return tokens;
    }
    std::string detokenize(const std::vector<int32_t>& tokens, bool special = false) const {
        const int64_t bytes = checked(tandem_detokenize(get(), tokens.data(), tokens.size(), special, nullptr, 0));
        std::string text(static_cast<size_t>(bytes), '\0');
        tandem_detokenize(get(), tokens.data(), tokens.size(), special, text.data(), text.size());
        return text;
    }
    std::vector<float> embed(const std::string& text) {
        std::vector<float> values(checked(tandem_embed(get(), "", nullptr, 0)));
        checked(tandem_embed(get(), text.c_str(), values.data(), values.size()));
        return values;
    }

    tandem_model* get() const { return model_.get(); }

  private:
    struct Close {
        void operator()(tandem_model* model) const { tandem_close(model); }
    };
    std::unique_ptr<tandem_model, Close> model_;
};

class Request {
  public:
    explicit Request(Model& model) : request_(tandem_request_new(model.get())) {
        if (!request_) throw Error();
    }

    Request& message(const std::string& role, const std::string& content) {
        checked(tandem_request_message(get(), role.c_str(), content.c_str()));
        return *this;
    }
    Request& text(const std::string& text) {
        checked(tandem_request_text(get(), text.c_str()));
        return *this;
    }
    Request& set(const std::string& name, const std::string& value) {
        checked(tandem_request_set(get(), name.c_str(), value.c_str()));
        return *this;
    }
    Request& tools(const std::string& json) {
        checked(tandem_request_tools(get(), json.empty() ? nullptr : json.c_str()));
        return *this;
    }
    Request& keep() {
        checked(tandem_request_keep(get()));
        return *this;
    }
    template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
    Request& set(const std::string& name, Number value) {
        std::array<char, 64> text{};  // to_chars: whatever the locale is
        return set(name, std::string(text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr));
    }
    void clear() { tandem_request_clear(get()); }

    std::vector<int32_t> prompt() {
        std::vector<int32_t> tokens(checked(tandem_request_prompt(get(), nullptr, 0)));
        tandem_request_prompt(get(), tokens.data(), tokens.size());
        return tokens;
    }

    // The whole answer. `on_text` gets its pieces, `on_reasoning` those of what the model thinks before it; false, or
    // an exception, ends it.
    using OnText = std::function<bool(std::string_view)>;
    std::string generate(const OnText& on_text = {}, const OnText& on_reasoning = {}) {
        struct Call {
            const OnText& listener;
            std::exception_ptr thrown = nullptr;
        } text{on_text}, reasoning{on_reasoning};
        const auto forward = [](const char* piece, size_t bytes, void* user) noexcept -> int {
            auto& to = *static_cast<Call*>(user);
            try {
                return !to.listener || to.listener({piece, bytes}) ? 0 : 1;
            } catch (...) {
                to.thrown = std::current_exception();
                return 1;
            }
        };
        checked(tandem_request_on_reasoning(get(), forward, &reasoning));
        const int result = tandem_request_generate(get(), forward, &text);
        tandem_request_on_reasoning(get(), nullptr, nullptr);
        for (const Call& call : {text, reasoning}) {
            if (call.thrown) std::rethrow_exception(call.thrown);
        }
        checked(result);
        return tandem_request_answer(get());
    }
    bool cancel() { return tandem_request_cancel(get()) == 1; }  // from any thread
    std::string reasoning() const { return tandem_request_reasoning(get()); }
    std::string calls() const { return tandem_request_calls(get()); }  // JSON
    std::string finish() const { return tandem_request_finish(get()); }
    tandem_usage usage() const {
        tandem_usage usage{};
        usage.size = sizeof(usage);
        checked(tandem_request_usage(get(), &usage));
        return usage;
    }

    tandem_request* get() const { return request_.get(); }

  private:
    struct Free {
        void operator()(tandem_request* request) const { tandem_request_free(request); }
    };
    std::unique_ptr<tandem_request, Free> request_;
};

}  // namespace tandem
