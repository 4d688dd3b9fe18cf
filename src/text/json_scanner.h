// JsonScanner: finds where a JSON value ends in text that is still being written, and the text of an object's members.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tandem::text {

// Checks the structure; numbers and escapes are left to a real parser, which is to see the value when it is complete.
class JsonScanner {
  public:
    enum class State : uint8_t { more, done, bad };

    // The next character. After `done` or `bad` there is nothing more to tell it.
    State push(char c);
    State state() const { return state_; }

  private:
    // What may come next, outside of strings and words.
    enum class Next : uint8_t { value, value_or_end, key, key_or_end, colon, comma_or_end };

    State push_outside(char c);
    State open(bool is_object);
    State close(bool is_object);
    State end_value();

    static constexpr size_t kMostDepth = 64;

    State state_ = State::more;
    Next next_ = Next::value;
    std::vector<bool> open_;  // true: an object
    bool in_string_ = false;
    bool escaped_ = false;
    bool in_word_ = false;  // a number, or true, false, null
    bool is_key_ = false;   // the string
};

// The member of a valid JSON object, or of the beginning of one, exactly as it was written, the last one where there
// are several. Nothing if there is none. `key` must have nothing that JSON escapes.
std::optional<std::string_view> raw_member(std::string_view object, std::string_view key);

// The elements of a valid JSON array, or of the beginning of one, as they were written.
std::vector<std::string_view> raw_elements(std::string_view array);

}  // namespace tandem::text
