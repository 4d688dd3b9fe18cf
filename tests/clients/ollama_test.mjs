// The client "ollama" against tandem serve with the embedded model.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Ollama } from "ollama";
import { live, startServer, until } from "./serve.mjs";

const MODEL = "tales";
const STORY = [{ role: "user", content: "Tell me a story about a fox and a lantern." }];
const WEATHER = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather of a city",
    parameters: { type: "object", required: ["city"], properties: { city: { type: "string", maxLength: 20 } } },
  },
};

let server;
let client;
before(async () => {
  server = await startServer();
  client = new Ollama({ host: server.url });
});
after(() => server?.stop());

const collect = async (stream) => {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
};

test("what the server says of itself and its models", async () => {
  assert.equal(await (await fetch(server.url)).text(), "Ollama is running");
  assert.match((await client.version()).version, /^\d+\.\d+/);
  const { models } = await client.list();
  const model = models.find(({ name }) => name.startsWith(MODEL));
  assert.ok(model.size > 0 && model.details.family && model.details.quantization_level);
  const shown = await client.show({ model: MODEL });
  assert.ok(shown.template.length > 0 && shown.details.family.length > 0 && shown.capabilities.includes("completion"));
});

test("a chat in one piece counts its tokens and its time", async () => {
  const answer = await client.chat({ model: MODEL, messages: STORY, options: { seed: 1 } });
  assert.equal(answer.message.role, "assistant");
  assert.match(answer.message.content, /fox/i);
  assert.ok(answer.done && answer.done_reason === "stop");
  assert.ok(answer.eval_count > 0 && answer.prompt_eval_count > 0 && answer.total_duration > 0 && answer.eval_duration > 0);
});

test("a chat in pieces ends with done", async () => {
  const options = { seed: 1, num_predict: 20 };
  const parts = await collect(await client.chat({ model: MODEL, messages: STORY, stream: true, options }));
  assert.ok(parts.slice(0, -1).every(({ done }) => !done));
  assert.ok(parts.at(-1).done && parts.at(-1).done_reason === "length" && parts.at(-1).eval_count === 20);
  const whole = await client.chat({ model: MODEL, messages: STORY, options });
  assert.equal(parts.map(({ message }) => message.content).join(""), whole.message.content);
});

test("generate, with a system message and raw", async () => {
  const answer = await client.generate({ model: MODEL, prompt: "What do bees make?", system: "You are kind.", options: { temperature: 0 } });
  assert.ok(answer.response.length > 0 && answer.done);
  const raw = await client.generate({ model: MODEL, prompt: "Once upon a time", raw: true, options: { num_predict: 5, temperature: 0 } });
  assert.equal(raw.eval_count, 5);
});

test("embeddings of several texts", async () => {
  const { embeddings } = await client.embed({ model: MODEL, input: ["a fox", "a lantern"] });
  assert.equal(embeddings.length, 2);
  assert.ok(Math.abs(embeddings[0].reduce((sum, x) => sum + x * x, 0) - 1) < 1e-3);
});

test("structured output keeps the schema", async () => {
  const format = { type: "object", properties: { age: { type: "integer", minimum: 1, maximum: 9 } }, required: ["age"] };
  const answer = await client.chat({ model: MODEL, messages: STORY, format });
  const { age } = JSON.parse(answer.message.content);
  assert.ok(Number.isInteger(age) && age >= 1 && age <= 9);
});

test("tools may be offered, and their results taken back", async () => {
  const messages = [
    { role: "user", content: "Is it cold in Oslo?" },
    { role: "assistant", content: "", tool_calls: [{ function: { name: "get_weather", arguments: { city: "Oslo" } } }] },
    { role: "tool", content: "3 degrees", tool_name: "get_weather" },
  ];
  const answer = await client.chat({ model: MODEL, messages, tools: [WEATHER], options: { num_predict: 40 } });
  for (const call of answer.message.tool_calls ?? []) assert.equal(typeof call.function.arguments, "object");
  assert.ok(answer.done);
});

test("errors are Ollama's", async () => {
  const status = (code) => (error) => error.name === "ResponseError" && error.status_code === code && error.error.length > 0;
  await assert.rejects(client.chat({ model: "nothing", messages: STORY }), status(404));
  await assert.rejects(client.show({ model: "../nothing" }), status(404));
  await assert.rejects(client.chat({ model: MODEL, messages: STORY, format: { type: "nonsense" } }), status(400));
  await assert.rejects(client.pull({ model: "nothing" }), (error) => /name a model of Hugging Face/.test(error.message));
});

test("a stream that is aborted ends the server's work", async () => {
  const stream = await client.chat({ model: MODEL, messages: STORY, stream: true, options: { num_predict: 1500, ignore_eos: true } });
  for await (const _ of stream) break;
  stream.abort();
  await until(async () => (await live(server)).requests.running === 0, "the server to notice");
});

test("a model is unloaded when told so, and comes back", async () => {
  await client.generate({ model: MODEL, prompt: "Hello", options: { num_predict: 1 } });
  assert.equal((await client.ps()).models.length, 1);
  const gone = await client.chat({ model: MODEL, messages: [], keep_alive: 0 });
  assert.equal(gone.done_reason, "unload");
  await until(async () => (await client.ps()).models.length === 0, "the model to go");
  const answer = await client.generate({ model: MODEL, prompt: "Hello", options: { num_predict: 1 } });
  assert.ok(answer.load_duration > 0);
});
