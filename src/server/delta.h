// Delta: a piece of an answer, whichever API it is for, and the Writer that gives it the shape of one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "server/reply.h"

namespace tandem::server {

struct Ask;

// The first piece of a call has its id and name; the arguments are JSON text, in pieces.
struct ToolCallPiece {
    int index = 0;  // of the call within the answer
    std::string id;
    std::string name;
    std::string arguments;
};

struct TokenText {
    std::string text;   // UTF-8; what is not is replaced
    std::string bytes;  // as they are
    float logprob = 0;
};

struct TokenDetail {
    TokenText chosen;
    std::vector<TokenText> top;  // likeliest first
};

enum class EndReason : uint8_t { stop, length, tool_calls, cancelled, deadline, error };

std::string_view name(EndReason reason);

// How a choice ended.
struct Ending {
    EndReason reason = EndReason::stop;
    std::string error;          // of EndReason::error
    std::string stop_sequence;  // the stop string that ended it, if one did
    engine::Usage usage;
    int reasoning_tokens = 0;  // of those that were generated
    engine::Timings timing;
};

struct Delta {
    int choice = 0;
    std::string content;
    std::string reasoning;
    std::vector<ToolCallPiece> tool_calls;
    std::vector<TokenDetail> logprobs;
    std::optional<Ending> end;  // the last Delta of the choice

    bool empty() const {
        return content.empty() && reasoning.empty() && tool_calls.empty() && logprobs.empty() && !end;
    }
};

// What the parts of an answer have in common.
struct AnswerHead {
    std::string id;  // random, without a prefix
    int64_t created_s = 0;
    std::string model;
    int prompt_tokens = 0;    // of all prompts
    double load_seconds = 0;  // that the request waited for its model
};

// All pieces of a choice, for an answer in one go. Several pieces of a tool call have become one.
struct WholeChoice {
    std::string content;
    std::string reasoning;
    std::vector<ToolCallPiece> tool_calls;
    std::vector<TokenDetail> logprobs;
    Ending end;
};

class WholeAnswer {
  public:
    explicit WholeAnswer(int choices) : choices_(static_cast<size_t>(choices)) {}
    void add(const Delta& delta);
    const std::vector<WholeChoice>& choices() const { return choices_; }

  private:
    std::vector<WholeChoice> choices_;
};

// Prompts are counted once, whatever the number of their choices (`n` of each): choice i answers prompt i / n.
engine::Usage total_usage(const std::vector<WholeChoice>& choices, int n);

// Gives one answer the shape of one API: either begin(), write() and end() or fail() for a stream, or whole(). What
// they return are the bytes to send. The deltas of several choices come interleaved.
class Writer {
  public:
    Writer() = default;
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;
    virtual ~Writer() = default;

    virtual std::string_view stream_type() const { return "text/event-stream"; }
    virtual std::string begin() { return {}; }
    virtual std::string write(const Delta& delta) = 0;
    virtual std::string end() = 0;                        // after the last choice has ended
    virtual std::string fail(const ApiError& error) = 0;  // instead of end(): something broke after begin()
    // Says nothing; so that clients and proxies do not think the stream dead.
    virtual std::string heartbeat() const { return ":\n\n"; }

    // The body of an answer that is not a stream.
    virtual std::string whole(const std::vector<WholeChoice>& choices) = 0;
};

struct Embeddings {
    std::vector<std::vector<float>> vectors;  // one per prompt, each of length 1
    int prompt_tokens = 0;
    double total_seconds = 0;
};

}  // namespace tandem::server
