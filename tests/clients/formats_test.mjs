// How models mark their reasoning and their calls of tools, through the three clients: the same answer, told in the marks of
// each family by a model that keeps to a script.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { Ollama } from "ollama";
import OpenAI from "openai";
import { writeScriptedModel } from "./scripted_model.mjs";
import { startServer } from "./serve.mjs";

const THOUGHT = "Oslo is a city.";
const SAID = "It rains in Oslo.";
const NAME = "get_weather";
const ARGUMENTS = { city: "Oslo, Norway", days: 3 };
const PARAMETERS = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city", "days"],
};
const CALL = '{"name": "get_weather", "arguments": {"city": "Oslo, Norway", "days": 3}}';
const QUESTION = [{ role: "user", content: "How is the weather?" }];

// A turn of each role between marks, tools as JSON in front, and the calls and results that a conversation may have.
const turns = (begin, end, calls, ask) => `
{%- if tools %}${begin("system")}{{ tools | tojson }}${end}{% endif %}
{%- for m in messages %}${begin("{{ m.role }}")}{{ m.content or "" }}
{%- for c in m.tool_calls or [] %}${calls}{% endfor %}${end}{% endfor %}
{%- if add_generation_prompt %}${ask}{% endif %}`;
const called = "{{ c.function.name }} {{ c.function.arguments | tojson }}";
const chatml = (calls) => turns((role) => `<|im_start|>${role}\n`, "<|im_end|>\n", calls, "<|im_start|>assistant\n");
const thinking = "{# <think></think> #}";
const think = ["<think>", THOUGHT, "</think>"];

// Of a family: its template, control tokens and end; the pieces of reasoning, of an answer and of a call.
const FORMATS = {
  harmony: {
    template: turns((role) => `<|start|>${role}<|channel|>final<|message|>`, "<|end|>",
      "{{ c.function.name }}<|message|>{{ c.function.arguments | tojson }}", "<|start|>assistant"),
    controls: ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>", "<|return|>", "<|call|>"],
    reasoning: ["<|channel|>", "analysis", "<|message|>", THOUGHT, "<|end|>", "<|start|>"],
    answer: ["assistant<|channel|>final<|message|>", SAID],
    call: ["assistant<|channel|>commentary to=functions.get_weather ", "<|constrain|>", "json<|message|>", JSON.stringify(ARGUMENTS)],
    stop: "<|return|>",
    stopOfCall: "<|call|>",
  },
  gemma4: {
    template: turns((role) => `<|turn>${role}\n`, "<turn|>\n", `<|tool_call>call:${called}<tool_call|>`, "<|turn>model\n") +
      "{# <|channel>thought\n<channel|> #}",
    controls: ["<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>'],
    reasoning: ["<|channel>", "thought\n", THOUGHT, "<channel|>"],
    answer: [SAID],
    call: ["<|tool_call>", "call:get_weather{city:", '<|"|>', "Oslo, Norway", '<|"|>,days:3}', "<tool_call|>"],
    stop: "<turn|>",
  },
  glm4: {
    template: turns((role) => `<|${role}|>\n`, "", "<tool_call>{{ c.function.name }}<arg_key>{{ c.function.arguments | tojson }}</tool_call>",
      "<|assistant|>") + thinking,
    controls: ["<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
    reasoning: think,
    answer: ["\n" + SAID],
    call: ["<tool_call>", "get_weather\n", "<arg_key>", "city", "</arg_key>", "\n<arg_value>Oslo, Norway</arg_value>\n",
      "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n", "</tool_call>"],
    stop: "<|endoftext|>",
  },
  qwen3: {
    template: chatml(`<tool_call>\n${called}\n</tool_call>`) + thinking,
    controls: ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"],
    reasoning: think,
    answer: ["\n\n" + SAID],
    call: ["\n\n<tool_call>", `\n${CALL}\n`, "</tool_call>"],
    stop: "<|im_end|>",
  },
  "qwen3.5": {
    template: chatml("<tool_call>\n<function={{ c.function.name }}>{{ c.function.arguments | tojson }}</function>\n</tool_call>") + thinking,
    controls: ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"],
    reasoning: think,
    answer: ["\n\n" + SAID],
    call: ["\n\n<tool_call>", "\n<function=get_weather>\n<parameter=city>\nOslo, Norway\n</parameter>\n",
      "<parameter=days>\n3\n</parameter>\n</function>\n", "</tool_call>"],
    stop: "<|im_end|>",
  },
  granite: {
    template: turns((role) => `<|start_of_role|>${role}<|end_of_role|>`, "<|end_of_text|>\n", `<|tool_call|>[${called}]`,
      "<|start_of_role|>assistant<|end_of_role|>"),
    controls: ["<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>", "<|tool_call|>"],
    reasoning: [],
    answer: [SAID],
    call: ["<|tool_call|>", `[${CALL}]`],
    stop: "<|end_of_text|>",
  },
  ministral3: {
    template: turns((role) => `[INST]${role} `, "[/INST]", `[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}`, "") +
      "{# [THINK][/THINK] #}",
    controls: ["[INST]", "[/INST]", "[THINK]", "[/THINK]", "[TOOL_CALLS]", "[ARGS]", "</s>"],
    reasoning: ["[THINK]", THOUGHT, "[/THINK]"],
    answer: [SAID],
    call: ["[TOOL_CALLS]", NAME, "[ARGS]", JSON.stringify(ARGUMENTS)],
    stop: "</s>",
  },
};

let folder;
let server;
let openai;
let anthropic;
let ollama;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "tandem-formats-"));
  for (const [name, { template, controls, reasoning, answer, call, stop, stopOfCall }] of Object.entries(FORMATS)) {
    const model = { template, controls };
    await writeScriptedModel(join(folder, `${name}-says`), { ...model, pieces: [...reasoning, ...answer], stop });
    await writeScriptedModel(join(folder, `${name}-calls`), { ...model, pieces: [...reasoning, ...call], stop: stopOfCall ?? stop });
  }
  server = await startServer(["--models", folder, "--device", "cpu", "tales"]);
  openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
  anthropic = new Anthropic({ baseURL: server.url, apiKey: "none", maxRetries: 0 });
  ollama = new Ollama({ host: server.url });
});
after(async () => {
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

const tool = { type: "function", function: { name: NAME, description: "The weather", parameters: PARAMETERS } };
const claudeTool = { name: NAME, description: "The weather", input_schema: PARAMETERS };

for (const [name, { reasoning }] of Object.entries(FORMATS)) {
  const thought = reasoning.length > 0 ? THOUGHT : undefined;

  test(`${name}: an answer`, async () => {
    const model = `${name}-says`;
    const ask = { model, messages: QUESTION };
    const { message, finish_reason } = (await openai.chat.completions.create(ask)).choices[0];
    assert.deepEqual([message.reasoning_content, message.content, finish_reason], [thought, SAID, "stop"]);
    let content = "";
    let reasoned = "";
    for await (const { choices } of await openai.chat.completions.create({ ...ask, stream: true })) {
      content += choices[0]?.delta.content ?? "";
      reasoned += choices[0]?.delta.reasoning_content ?? "";
    }
    assert.deepEqual([reasoned, content], [thought ?? "", SAID]);
    const response = await openai.responses.create({ model, input: QUESTION });
    assert.equal(response.output_text, SAID);
    assert.equal(response.output.find(({ type }) => type === "reasoning")?.content[0].text, thought);
    const { content: blocks, stop_reason } = await anthropic.messages.create({ ...ask, max_tokens: 500 });
    assert.deepEqual(blocks.map(({ thinking, text }) => thinking ?? text), thought ? [thought, SAID] : [SAID]);
    assert.equal(stop_reason, "end_turn");
    const told = (await ollama.chat(ask)).message;
    assert.deepEqual([told.thinking, told.content], [thought, SAID]);
  });

  test(`${name}: a call`, async () => {
    const model = `${name}-calls`;
    const ask = { model, messages: QUESTION, tools: [tool] };
    const { message, finish_reason } = (await openai.chat.completions.create(ask)).choices[0];
    assert.equal(message.reasoning_content, thought);
    assert.equal(finish_reason, "tool_calls");
    assert.deepEqual(message.tool_calls.map(({ function: f }) => [f.name, JSON.parse(f.arguments)]), [[NAME, ARGUMENTS]]);
    const response = await openai.responses.create({ model, input: QUESTION, tools: [{ type: "function", strict: false, ...tool.function }] });
    const call = response.output.find(({ type }) => type === "function_call");
    assert.deepEqual([call.name, JSON.parse(call.arguments)], [NAME, ARGUMENTS]);
    const { content, stop_reason } = await anthropic.messages.create({ model, messages: QUESTION, tools: [claudeTool], max_tokens: 500 });
    const use = content.find(({ type }) => type === "tool_use");
    assert.deepEqual([use.name, use.input, stop_reason], [NAME, ARGUMENTS, "tool_use"]);
    const told = (await ollama.chat(ask)).message;
    assert.equal(told.thinking, thought);
    assert.deepEqual(told.tool_calls.map(({ function: f }) => [f.name, f.arguments]), [[NAME, ARGUMENTS]]);
    // The result goes back, and the conversation goes on.
    const result = { role: "tool", tool_call_id: message.tool_calls[0].id, content: "Rain" };
    const again = await openai.chat.completions.create({ ...ask, messages: [...QUESTION, message, result] });
    assert.equal(again.choices[0].finish_reason, "tool_calls");
  });

  // The model would rather say something else at first: what it says is held to the form that its template has.
  test(`${name}: a call that must be`, async () => {
    const parameters = structuredClone(PARAMETERS);
    parameters.properties.city.maxLength = 20;
    const held = { type: "function", function: { ...tool.function, parameters } };
    const ask = { model: `${name}-says`, messages: QUESTION };
    const check = (made, given) => {
      assert.equal(made, NAME);
      assert.deepEqual(Object.keys(given).sort(), ["city", "days"]);
      assert.ok(typeof given.city === "string" && [...given.city].length <= 20 && Number.isInteger(given.days), JSON.stringify(given));
    };
    for (const tool_choice of ["required", { type: "function", function: { name: NAME } }]) {
      const { message, finish_reason } = (await openai.chat.completions.create({ ...ask, tools: [held], tool_choice })).choices[0];
      assert.deepEqual([message.content, finish_reason], [null, "tool_calls"]);
      for (const { function: f } of message.tool_calls) check(f.name, JSON.parse(f.arguments));
      if (tool_choice !== "required") assert.equal(message.tool_calls.length, 1);
    }
    const { content, stop_reason } = await anthropic.messages.create({ ...ask, max_tokens: 1000,
      tools: [{ ...claudeTool, input_schema: parameters }], tool_choice: { type: "any", disable_parallel_tool_use: true } });
    assert.equal(stop_reason, "tool_use");
    assert.deepEqual(content.map(({ type }) => type), ["tool_use"]);
    check(content[0].name, content[0].input);
  });

  test(`${name}: a call that may be, of a strict tool`, async () => {
    const strict = { type: "function", function: { ...tool.function, strict: true } };
    const ask = { messages: QUESTION, tools: [strict] };
    const { message, finish_reason } = (await openai.chat.completions.create({ ...ask, model: `${name}-calls` })).choices[0];
    assert.deepEqual([message.reasoning_content, finish_reason], [thought, "tool_calls"]);
    assert.deepEqual(message.tool_calls.map(({ function: f }) => [f.name, JSON.parse(f.arguments)]), [[NAME, ARGUMENTS]]);
    const said = (await openai.chat.completions.create({ ...ask, model: `${name}-says` })).choices[0];
    assert.deepEqual([said.message.content, said.finish_reason], [SAID, "stop"]);
  });
}
