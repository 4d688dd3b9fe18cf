// Reads the fields of a request's JSON object; what has another type than expected is an error that names the field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/ask.h"
#include "text/message_forms.h"

namespace tandem::server {

// Fields that are absent or null leave what they are read into as it is.
class Fields {
  public:
    // `path` stands before the names in errors: "tools[2]".
    static Reply<Fields> of(const Json& object, std::string path = {});

    // The field, or null.
    const Json* find(const char* key) const;
    // Of the fields that are not null.
    std::vector<std::string> keys() const;
    std::string name(const char* key) const { return path_.empty() ? key : path_ + "." + key; }

    Reply<Ok> read(const char* key, std::string& out) const;
    Reply<Ok> read(const char* key, bool& out) const;
    Reply<Ok> read(const char* key, int& out) const;
    Reply<Ok> read(const char* key, float& out) const;
    Reply<Ok> read(const char* key, double& out) const;
    Reply<Ok> read(const char* key, uint64_t& out) const;  // negative numbers wrap, as seeds may
    // A string, or an array of them.
    Reply<Ok> read(const char* key, std::vector<std::string>& out) const;
    template <typename T>
    Reply<Ok> read(const char* key, std::optional<T>& out) const {
        if (find(key) == nullptr) return Ok{};
        T value = {};
        Reply<Ok> done = read(key, value);
        if (done) out = std::move(value);
        return done;
    }
    // {"token id": bias}
    Reply<Ok> read_logit_bias(const char* key, std::vector<std::pair<int32_t, float>>& out) const;

    Reply<std::string> required_text(const char* key) const;
    // `most`: so that what is refused for its number is not read first.
    Reply<const Json*> required_array(const char* key, size_t most = SIZE_MAX) const;

    ApiError wrong(const char* key, std::string_view expected) const;

  private:
    Fields(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {}

    const Json* object_;
    std::string path_;
};

// The text of a message's "content": a string, null, or an array of parts of the types given. Pictures, sound and
// files are refused, as are URLs: nothing is ever fetched.
Reply<std::string> text_of_content(const Json& content, const std::string& path,
                                   std::initializer_list<std::string_view> text_types = {"text"});

using text::arguments_of;  // a tool call's, as an object

// A tool of OpenAI's form, checked: {"type": "function", "function": {...}}.
Reply<Ok> check_tool(const Json& tool, const std::string& path);

}  // namespace tandem::server
