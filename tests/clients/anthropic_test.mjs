// The client "@anthropic-ai/sdk" against tandem serve with the embedded model.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { live, startServer, until } from "./serve.mjs";

const STORY = { model: "tales", max_tokens: 60, messages: [{ role: "user", content: "Tell me a story about a fox." }] };
const WEATHER = {
  name: "get_weather",
  description: "The weather of a city",
  input_schema: { type: "object", properties: { city: { type: "string", maxLength: 20 } }, required: ["city"] },
};

let server;
let client;
before(async () => {
  server = await startServer();
  client = new Anthropic({ baseURL: server.url, apiKey: "none", maxRetries: 0 });
});
after(() => server?.stop());

test("a message in one piece", async () => {
  const message = await client.messages.create({ ...STORY, system: "You are kind.", max_tokens: 300 });
  assert.equal(message.type, "message");
  assert.equal(message.role, "assistant");
  assert.equal(message.stop_reason, "end_turn");
  assert.equal(message.content[0].type, "text");
  assert.match(message.content[0].text, /fox/i);
  assert.ok(message.usage.input_tokens > 0 && message.usage.output_tokens > 0);
});

test("a stream has its events in order", async () => {
  const types = [];
  for await (const event of await client.messages.create({ ...STORY, stream: true })) types.push(event.type);
  const order = types.filter((type, i) => type !== "ping" && type !== types[i - 1]);
  assert.deepEqual(order, ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]);
});

test("the helper for streams puts the message together", async () => {
  const stream = client.messages.stream({ ...STORY, temperature: 0 });
  let text = "";
  stream.on("text", (piece) => (text += piece));
  const message = await stream.finalMessage();
  assert.equal(message.content[0].text, text);
  assert.equal(message.stop_reason, "max_tokens");
  assert.equal(message.usage.output_tokens, 60);
});

test("a stop sequence is named", async () => {
  const message = await client.messages.create({ ...STORY, max_tokens: 300, stop_sequences: ["."] });
  assert.equal(message.stop_reason, "stop_sequence");
  assert.equal(message.stop_sequence, ".");
});

test("tokens are counted", async () => {
  const { messages, model } = STORY;
  const { input_tokens } = await client.messages.countTokens({ model, messages });
  const { usage } = await client.messages.create({ ...STORY, max_tokens: 1 });
  assert.equal(input_tokens, usage.input_tokens + (usage.cache_read_input_tokens ?? 0));
});

test("a tool that must be used is used, and its result taken back", async () => {
  for (const tool_choice of [{ type: "any" }, { type: "tool", name: "get_weather" }]) {
    const message = await client.messages.create({ ...STORY, max_tokens: 200, tools: [WEATHER], tool_choice });
    const use = message.content.find(({ type }) => type === "tool_use");
    assert.equal(message.stop_reason, "tool_use");
    assert.equal(use.name, "get_weather");
    assert.equal(typeof use.input.city, "string");
    const result = { type: "tool_result", tool_use_id: use.id, content: "3 degrees" };
    const messages = [...STORY.messages, { role: "assistant", content: message.content }, { role: "user", content: [result] }];
    const next = await client.messages.create({ ...STORY, tools: [WEATHER], messages });
    assert.ok(next.content.length > 0);
  }
});

test("a tool's input is streamed", async () => {
  const stream = client.messages.stream({ ...STORY, max_tokens: 200, tools: [WEATHER], tool_choice: { type: "any" } });
  let pieces = 0;
  stream.on("inputJson", () => pieces++);
  const message = await stream.finalMessage();
  assert.equal(typeof message.content.find(({ type }) => type === "tool_use").input.city, "string");
  assert.ok(pieces > 0);
});

test("errors are Anthropic's", async () => {
  const type = (kind, name) => (error) => error instanceof kind && error.error.type === "error" && error.error.error.type === name;
  await assert.rejects(client.messages.create({ ...STORY, model: "nothing" }), type(Anthropic.NotFoundError, "not_found_error"));
  await assert.rejects(client.messages.create({ ...STORY, max_tokens: 0 }), type(Anthropic.BadRequestError, "invalid_request_error"));
  await assert.rejects(client.messages.create({ ...STORY, temperature: -1 }), type(Anthropic.BadRequestError, "invalid_request_error"));
  const long = [{ role: "user", content: "fox ".repeat(40_000) }];
  await assert.rejects(client.messages.create({ ...STORY, messages: long }), type(Anthropic.BadRequestError, "invalid_request_error"));
});

test("a stream that is aborted ends the server's work", async () => {
  const stream = client.messages.stream({ ...STORY, max_tokens: 1500 });
  const ended = stream.done().catch((error) => error);
  await new Promise((resolve) => stream.once("text", resolve));
  stream.abort();
  assert.ok((await ended) instanceof Anthropic.APIUserAbortError);
  await until(async () => (await live(server)).requests.running === 0, "the server to notice");
});
