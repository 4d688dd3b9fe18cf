// The client "openai" against tandem serve with the embedded model.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { live, startServer, until } from "./serve.mjs";

const STORY = [{ role: "user", content: "Tell me a story about a fox and a lantern." }];
const MODEL = "tales";
const WEATHER = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather of a city",
    parameters: {
      type: "object",
      properties: { city: { type: "string", maxLength: 20 }, unit: { enum: ["celsius", "fahrenheit"] } },
      required: ["city", "unit"],
      additionalProperties: false,
    },
  },
};
const PERSON = {
  type: "object",
  properties: { name: { type: "string", maxLength: 12 }, age: { type: "integer", minimum: 0, maximum: 120 } },
  required: ["name", "age"],
  additionalProperties: false,
};

let server;
let client;
before(async () => {
  server = await startServer();
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
});
after(() => server?.stop());

const chat = (options) => client.chat.completions.create({ model: MODEL, messages: STORY, seed: 1, ...options });
const collect = async (stream) => {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
};
const textOf = (chunks) => chunks.map((chunk) => chunk.choices[0]?.delta?.content ?? "").join("");

test("models are listed and found by name", async () => {
  const models = await client.models.list();
  const model = models.data.find(({ id }) => id === MODEL);
  assert.equal(model.object, "model");
  assert.ok(Number.isInteger(model.created) && model.owned_by && model.max_model_len > 0 && model.meta.n_ctx > 0);
  assert.equal((await client.models.retrieve(MODEL)).id, MODEL);
  await assert.rejects(client.models.retrieve("nothing"), OpenAI.NotFoundError);
});

test("an answer in one piece", async () => {
  const answer = await chat({});
  assert.equal(answer.object, "chat.completion");
  assert.equal(answer.choices[0].message.role, "assistant");
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.match(answer.choices[0].message.content, /fox/i);
  const { prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details } = answer.usage;
  assert.equal(total_tokens, prompt_tokens + completion_tokens);
  assert.ok(prompt_tokens_details.cached_tokens >= 0);
});

test("a stream keeps to the contract", async () => {
  const chunks = await collect(await chat({ stream: true, stream_options: { include_usage: true } }));
  assert.equal(new Set(chunks.map(({ id }) => id)).size, 1);
  assert.equal(new Set(chunks.map(({ created }) => created)).size, 1);
  assert.deepEqual(chunks.map(({ choices }) => choices[0]?.delta.role).filter(Boolean), ["assistant"]);
  assert.equal(chunks[0].choices[0].delta.role, "assistant");
  const [usage, last] = [chunks.at(-1), chunks.at(-2)];
  assert.deepEqual(usage.choices, []);
  assert.equal(usage.usage.total_tokens, usage.usage.prompt_tokens + usage.usage.completion_tokens);
  assert.equal(last.choices[0].finish_reason, "stop");
  assert.deepEqual(last.choices[0].delta, {});
  assert.ok(chunks.slice(0, -2).every(({ choices }) => choices[0].finish_reason === null));
  assert.ok(chunks.length > 10, "piece by piece");
});

test("the same seed gives the same text, streamed or not", async () => {
  const whole = (await chat({ seed: 7 })).choices[0].message.content;
  assert.equal(textOf(await collect(await chat({ seed: 7, stream: true }))), whole);
  assert.notEqual((await chat({ seed: 8 })).choices[0].message.content, whole);
});

test("a prompt that was read before comes from the cache", async () => {
  const content = "Tell me a story about a goat, a kettle, a drum and a boat by the sea, with a happy end. ".repeat(4);
  const ask = () => chat({ messages: [{ role: "user", content }], max_tokens: 4 });
  await ask();
  const { prompt_tokens, prompt_tokens_details } = (await ask()).usage;
  assert.ok(prompt_tokens_details.cached_tokens > prompt_tokens / 2, `${prompt_tokens_details.cached_tokens} of ${prompt_tokens}`);
});

test("several choices, a stop string, a length, log-probabilities", async () => {
  const several = await chat({ n: 3, max_tokens: 12 });
  assert.deepEqual(several.choices.map(({ index }) => index), [0, 1, 2]);
  assert.ok(new Set(several.choices.map(({ message }) => message.content)).size > 1);
  assert.ok(several.choices.every(({ finish_reason }) => finish_reason === "length"));
  assert.equal(several.usage.completion_tokens, 36);
  const stopped = await chat({ stop: ["."], logprobs: true, top_logprobs: 2 });
  assert.ok(!stopped.choices[0].message.content.includes("."));
  const [first] = stopped.choices[0].logprobs.content;
  assert.ok(first.logprob <= 0 && first.token.length > 0 && Array.isArray(first.bytes));
  assert.equal(first.top_logprobs.length, 2);
});

test("errors say what is wrong, and whether to try again", async () => {
  const fails = async (options, kind, check) => {
    const error = await chat(options).then(() => assert.fail("no error"), (e) => e);
    assert.ok(error instanceof kind, `${error}`);
    assert.equal(error.headers.get("x-should-retry"), "false");
    check?.(error);
  };
  await fails({ temperature: 1000 }, OpenAI.BadRequestError, (error) => assert.equal(error.param, "temperature"));
  await fails({ messages: [] }, OpenAI.BadRequestError);
  await fails({ messages: [{ role: "nobody", content: "x" }] }, OpenAI.BadRequestError);
  await fails({ n: 100_000 }, OpenAI.BadRequestError, (error) => assert.equal(error.param, "n"));
  await fails({ model: "../../etc/passwd" }, OpenAI.NotFoundError);
  await fails({ model: "nothing" }, OpenAI.NotFoundError, (error) => assert.equal(error.code, "model_not_found"));
  await fails({ messages: [{ role: "user", content: "fox ".repeat(40_000) }] }, OpenAI.BadRequestError, (error) => {
    assert.equal(error.code, "context_length_exceeded");
    assert.equal(error.type, "exceed_context_size_error");
    assert.match(error.message, /exceeds the available context size/);
    assert.match(error.message, /maximum context length is \d+ tokens/);
    assert.ok(error.error.n_prompt_tokens > error.error.n_ctx);
  });
});

test("a server that is full is tried again until it is not", async () => {
  const small = await startServer(["tales", "--concurrent", "1"]);
  try {
    const connect = (maxRetries) => new OpenAI({ baseURL: `${small.url}/v1`, apiKey: "none", maxRetries });
    const ask = { model: MODEL, messages: STORY, max_tokens: 900, ignore_eos: true };
    const held = await connect(0).chat.completions.create({ ...ask, stream: true });
    await assert.rejects(connect(0).chat.completions.create(ask), (error) => {
      assert.ok(error instanceof OpenAI.RateLimitError, `${error}`);
      return Number(error.headers.get("retry-after")) > 0;
    });
    const patient = connect(10).chat.completions.create({ ...ask, max_tokens: 3 });
    held.controller.abort();
    assert.equal((await patient).usage.completion_tokens, 3);
  } finally {
    await small.stop();
  }
});

test("a key is asked for where keys are kept", async () => {
  const folder = await mkdtemp(join(tmpdir(), "tandem-clients-"));
  const file = join(folder, "keys");
  await writeFile(file, "sk-sesame-open-the-door use somebody\n", { mode: 0o600 });
  const kept = await startServer(["tales", "--api-keys", file]);
  try {
    const connect = (apiKey) => new OpenAI({ baseURL: `${kept.url}/v1`, apiKey, maxRetries: 0 });
    await assert.rejects(connect("wrong").models.list(), OpenAI.AuthenticationError);
    assert.ok((await connect("sk-sesame-open-the-door").models.list()).data.length > 0);
  } finally {
    await kept.stop();
    await rm(folder, { recursive: true });
  }
});

test("an error before the first token of a stream is a status too", async () => {
  await assert.rejects(chat({ stream: true, temperature: -1 }), OpenAI.BadRequestError);
});

test("a schema that cannot be kept is refused", async () => {
  const format = (schema) => ({ response_format: { type: "json_schema", json_schema: { name: "x", schema } } });
  await assert.rejects(chat(format({ type: "nonsense" })), OpenAI.BadRequestError);
  await assert.rejects(chat(format({ $ref: "https://example.org/schema.json" })), OpenAI.BadRequestError);
});

test("structured output keeps the schema", async () => {
  const response_format = { type: "json_schema", json_schema: { name: "person", strict: true, schema: PERSON } };
  const messages = [{ role: "user", content: "Tell me about a fox named Mira." }];
  const answer = await client.chat.completions.parse({ model: MODEL, messages, response_format, seed: 2 });
  const { name, age, ...rest } = JSON.parse(answer.choices[0].message.content);
  assert.equal(typeof name, "string");
  assert.ok(Number.isInteger(age) && age >= 0 && age <= 120);
  assert.deepEqual(rest, {});
  const streamed = textOf(await collect(await chat({ messages, response_format, stream: true, seed: 2 })));
  assert.equal(streamed, answer.choices[0].message.content);
});

test("a JSON object, when that is all that is asked", async () => {
  const answer = await chat({ response_format: { type: "json_object" }, max_tokens: 200, stop: ["}"] });
  assert.match(answer.choices[0].message.content, /^\s*\{/);
});

test("a tool that must be called is called", async () => {
  for (const tool_choice of ["required", { type: "function", function: { name: "get_weather" } }]) {
    const answer = await chat({ tools: [WEATHER], tool_choice, messages: [{ role: "user", content: "Is it cold in Oslo?" }] });
    const [call] = answer.choices[0].message.tool_calls;
    assert.equal(answer.choices[0].finish_reason, "tool_calls");
    assert.equal(call.type, "function");
    assert.ok(call.id.length > 0);
    assert.equal(call.function.name, "get_weather");
    assert.match(JSON.parse(call.function.arguments).unit, /^(celsius|fahrenheit)$/);
  }
});

test("a tool call is streamed in pieces, and its result taken back", async () => {
  const messages = [{ role: "user", content: "Is it cold in Oslo?" }];
  const runner = client.chat.completions.stream({ model: MODEL, messages, tools: [WEATHER], tool_choice: "required", seed: 3 });
  const { choices } = await runner.finalChatCompletion();
  const [call] = choices[0].message.tool_calls;
  assert.deepEqual(Object.keys(JSON.parse(call.function.arguments)).sort(), ["city", "unit"]);
  const answer = await chat({
    tools: [WEATHER],
    tool_choice: "none",
    messages: [...messages, choices[0].message, { role: "tool", tool_call_id: call.id, content: "3 degrees" }],
  });
  assert.equal(answer.choices[0].message.tool_calls, undefined);
  assert.ok(answer.choices[0].message.content.length > 0);
});

test("a stream that is cancelled ends the server's work", async () => {
  const stream = await chat({ stream: true, max_tokens: 1500, ignore_eos: true });
  for await (const _ of stream) break;
  stream.controller.abort();
  await until(async () => (await live(server)).requests.running === 0, "the server to notice");
  // So many that none is through before the abort, however fast the machine.
  const stop = new AbortController();
  const long = { model: MODEL, messages: STORY, max_tokens: 1500, ignore_eos: true, n: 16 };
  const answers = Array.from({ length: 8 }, () => client.chat.completions.create(long, { signal: stop.signal }));
  const failed = Promise.all(answers.map((answer) => assert.rejects(answer, OpenAI.APIUserAbortError)));
  await until(async () => (await live(server)).requests.running > 0, "the requests to run");
  stop.abort();
  await failed;
  await until(async () => (await live(server)).requests.running === 0, "the server to notice");
});

test("many streams at once, none mixed up", async () => {
  const pairs = ["fox", "owl", "goat", "bear"].flatMap((animal) => ["lantern", "drum", "boat", "bell"].map((thing) => [animal, thing]));
  const tell = async ([animal, thing]) => {
    const messages = [{ role: "user", content: `Tell me a story about a ${animal} and a ${thing}.` }];
    return textOf(await collect(await chat({ messages, temperature: 0, stream: true })));
  };
  const stories = await Promise.all(pairs.map(tell));
  pairs.forEach(([animal, thing], i) => assert.match(stories[i], new RegExp(`${animal}.*${thing}|${thing}.*${animal}`, "is")));
});

test("embeddings as numbers, whichever way they travel", async () => {
  const input = ["a fox", "a lantern", "a fox"];
  const compact = await client.embeddings.create({ model: MODEL, input }); // the client asks for base64
  const plain = await client.embeddings.create({ model: MODEL, input, encoding_format: "float" });
  assert.deepEqual(plain.data.map(({ index }) => index), [0, 1, 2]);
  assert.equal(compact.data[0].embedding.length, plain.data[0].embedding.length);
  const difference = compact.data[0].embedding.map((x, i) => Math.abs(x - plain.data[0].embedding[i]));
  assert.ok(Math.max(...difference) < 1e-6);
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const [fox, lantern, again] = plain.data.map(({ embedding }) => embedding);
  assert.ok(Math.abs(dot(fox, fox) - 1) < 1e-3, "of length one");
  assert.ok(dot(fox, again) > 0.999 && dot(fox, lantern) < dot(fox, again));
  assert.ok(plain.usage.prompt_tokens > 0);
});

test("plain completions, with echo", async () => {
  const answer = await client.completions.create({ model: MODEL, prompt: "Once upon a time", max_tokens: 8, echo: true, seed: 1 });
  assert.ok(answer.choices[0].text.startsWith("Once upon a time"));
  assert.equal(answer.choices[0].finish_reason, "length");
  const chunks = await collect(await client.completions.create({ model: MODEL, prompt: "Once upon a time", max_tokens: 8, seed: 1, stream: true }));
  assert.equal(chunks.map(({ choices }) => choices[0].text).join(""), answer.choices[0].text.slice("Once upon a time".length));
});

test("the responses API, whole and streamed", async () => {
  const ask = { model: MODEL, input: "Tell me a story about a fox.", instructions: "You are kind.", max_output_tokens: 40, temperature: 0 };
  const whole = await client.responses.create(ask);
  assert.equal(whole.object, "response");
  assert.ok(whole.output_text.length > 0);
  const events = await collect(await client.responses.create({ ...ask, stream: true }));
  assert.equal(events[0].type, "response.created");
  assert.match(events.at(-1).type, /^response\.(completed|incomplete)$/);
  const text = events.filter(({ type }) => type === "response.output_text.delta").map(({ delta }) => delta).join("");
  assert.equal(text, whole.output_text);
  assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, i) => i));
});
