// libtandem: large language models in a program of yours. The C interface (C99), all of it.
//
// Every function may be called from any thread; a request belongs to one thread at a time, but for its cancel. What
// returns a pointer returns NULL when it fails, what returns a number a negative one, and tandem_error() says why. Text
// is UTF-8. The library installs no signal handlers, changes no locale and writes warnings to standard error, or to the
// default logger of spdlog where the program has set one.
#ifndef TANDEM_H
#define TANDEM_H

#include <stddef.h>
#include <stdint.h>

#define TANDEM_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tandem_model tandem_model;
typedef struct tandem_request tandem_request;

TANDEM_API const char* tandem_version(void); /* "0.2.0" */
TANDEM_API const char* tandem_error(void);   /* of this thread's last call that failed: one line */

/* ---- Models ----
 * `model`: a GGUF file, a Hugging Face directory, a name that `tandem list` shows, or NULL for the small one inside the
 * library. `options`: NULL, or texts "name=value" and a NULL behind them: device, split, threads, strict, exact, npu,
 * placement, context, kv, lookup as `tandem run --help` has them (a switch is on or off), and sequences, the number of
 * answers that are written at once (1): further requests wait. */
TANDEM_API tandem_model* tandem_open(const char* model, const char* const* options);
TANDEM_API void tandem_close(tandem_model* model); /* what its requests need stays until they are freed */
TANDEM_API const char* tandem_model_name(const tandem_model* model);
TANDEM_API const char* tandem_model_device(const tandem_model* model); /* "cpu", "vulkan:0" */
TANDEM_API const char* tandem_model_notes(const tandem_model* model);  /* lines: why it is not a better device; or "" */
TANDEM_API int64_t tandem_model_context(const tandem_model* model);    /* tokens of a prompt and its answer together */

/* ---- Text and tokens ----
 * Both write at most `capacity` and return how many there are in all; text gets a NUL behind it when there is room.
 * `special`: tokens such as <bos> and <start_of_turn> count as what they are; else a text is nothing but text. */
TANDEM_API int64_t tandem_tokenize(const tandem_model* model, const char* text, int special, int32_t* tokens,
                                   size_t capacity);
TANDEM_API int64_t tandem_detokenize(const tandem_model* model, const int32_t* tokens, size_t count, int special,
                                     char* text, size_t capacity);
/* The embedding of a text, of length 1: at most `capacity` values; returns how many it has, and with a capacity
 * of 0 does no more than that. */
TANDEM_API int64_t tandem_embed(tandem_model* model, const char* text, float* values, size_t capacity);

/* ---- Requests ----
 * Either messages, which the model's chat template makes a prompt of, or one text, which is completed as it is. */
TANDEM_API tandem_request* tandem_request_new(tandem_model* model);
TANDEM_API void tandem_request_free(tandem_request* request);
/* `role`: system, user, assistant or tool; the results of calls come one after the other, in the order of the calls. */
TANDEM_API int tandem_request_message(tandem_request* request, const char* role, const char* content);
/* The last answer becomes a message, with its reasoning and its calls. */
TANDEM_API int tandem_request_keep(tandem_request* request);
/* What the model may call: a JSON array, [{"type": "function", "function": {"name", "description", "parameters": a
 * JSON Schema}}]; NULL: nothing. It stays until it is set again. */
TANDEM_API int tandem_request_tools(tandem_request* request, const char* tools);
TANDEM_API int tandem_request_text(tandem_request* request, const char* text);
TANDEM_API void tandem_request_clear(tandem_request* request); /* forgets messages and text; settings stay */
/* As `tandem run --help` has them, by names such as "temperature", "top_k", "top_p", "min_p", "seed", "max_tokens",
 * "stop" (each adds one), "system", "think", "logit_bias", and "grammar": "json", a JSON Schema, GBNF, or a file with
 * either. */
TANDEM_API int tandem_request_set(tandem_request* request, const char* name, const char* value);
/* The prompt as it stands; returns the number of its tokens and writes at most `capacity`. */
TANDEM_API int64_t tandem_request_prompt(tandem_request* request, int32_t* tokens, size_t capacity);

/* ---- Answers ----
 * Is given every piece of the answer, whole characters, by the thread that waits; anything but 0 ends the answer. */
typedef int (*tandem_on_text)(const char* text, size_t bytes, void* user);
/* Waits for the answer. `on_text` may be NULL. What the model thinks before it and the calls of tools are no part of
 * its text where messages were given and the chat template has marks for them. */
TANDEM_API int tandem_request_generate(tandem_request* request, tandem_on_text on_text, void* user);
/* Who is given the pieces of what the model thinks, from the next answer on; NULL: nobody. */
TANDEM_API int tandem_request_on_reasoning(tandem_request* request, tandem_on_text on_reasoning, void* user);
/* From any thread: ends the answer under way. Returns 1, or 0 when there is none. */
TANDEM_API int tandem_request_cancel(tandem_request* request);
/* Of the last answer, until the next: its text, what the model thought before it, its calls as a JSON array of
 * {"name", "arguments": {...}}, and why it ended: "stop", "length", "tool_calls" or "cancelled". */
TANDEM_API const char* tandem_request_answer(const tandem_request* request);
TANDEM_API const char* tandem_request_reasoning(const tandem_request* request);
TANDEM_API const char* tandem_request_calls(const tandem_request* request);
TANDEM_API const char* tandem_request_finish(const tandem_request* request);

typedef struct tandem_usage {
    size_t size; /* sizeof(tandem_usage), set by the caller: later versions may add members behind the last */
    int64_t prompt_tokens;
    int64_t cached_tokens; /* of the prompt, known from requests before */
    int64_t answer_tokens;
    uint64_t seed; /* gives the same answer again */
    double prompt_seconds;
    double answer_seconds;
} tandem_usage;
TANDEM_API int tandem_request_usage(const tandem_request* request, tandem_usage* usage);

#ifdef __cplusplus
}
#endif

#endif
