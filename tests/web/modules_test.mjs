// The parts of the page that need no browser.
import assert from "node:assert/strict";
import { test } from "node:test";

const built = new URL("../../build/web_tests/src/", import.meta.url);
const { EventParser } = await import(new URL("sse.js", built));
const { addMessage, adopt, chooseBranch, newConversation, path, readPath, recentStart, siblings, tokensUsed } = await import(
  new URL("conversation.js", built)
);
const { ApiError } = await import(new URL("api.js", built));
const { detailsOf, problemOf } = await import(new URL("problems.js", built));
const { exportText, importText } = await import(new URL("transfer.js", built));
const { describeLayers, formatBytes } = await import(new URL("memory_map.js", built));

const fresh = () => newConversation({ model: "tales", system: "", sampling: {} });
const texts = (conversation) => path(conversation).map((message) => message.text);

test("events are the same however the bytes are cut", () => {
  const stream = ': hello\n\ndata: {"a":1}\n\nevent: x\r\ndata: first\r\ndata:second\r\n\r\ndata: [DONE]\n\n';
  for (let size = 1; size <= stream.length; size++) {
    const parser = new EventParser();
    const events = [];
    for (let at = 0; at < stream.length; at += size) events.push(...parser.push(stream.slice(at, at + size)));
    assert.deepEqual(events, ['{"a":1}', "first\nsecond", "[DONE]"], `pieces of ${size}`);
  }
});

test("an event without its end is none", () => {
  assert.deepEqual(new EventParser().push("data: half\n"), []);
});

test("an edit is another branch, and both can be shown", () => {
  const conversation = fresh();
  const first = addMessage(conversation, null, { role: "user", text: "one" });
  const answer = addMessage(conversation, first.id, { role: "assistant", text: "uno" });
  addMessage(conversation, answer.id, { role: "user", text: "more" });
  const edited = addMessage(conversation, null, { role: "user", text: "two" });
  assert.deepEqual(texts(conversation), ["two"]);
  assert.deepEqual(siblings(conversation, edited), [first, edited]);
  chooseBranch(conversation, first);
  assert.deepEqual(texts(conversation), ["one", "uno", "more"]);
  assert.equal(conversation.title, "one");
});

test("a long first message makes a short title", () => {
  const conversation = fresh();
  addMessage(conversation, null, { role: "user", text: `${"word ".repeat(40)}\nsecond line` });
  assert.ok(conversation.title.length <= 60 && conversation.title.endsWith("…"), conversation.title);
});

test("what is exported is what is imported", () => {
  const conversation = fresh();
  conversation.sampling = { temperature: 0.5, seed: 7 };
  const question = addMessage(conversation, null, { role: "user", text: "Grüße\n\"quoted\"" });
  const stats = { tokens: 3, promptTokens: 2, cachedTokens: 1, firstTokenMs: 5, totalMs: 9 };
  addMessage(conversation, question.id, { role: "assistant", text: "ok", finish: "stop", model: "tales", stats });
  addMessage(conversation, question.id, { role: "assistant", text: "", finish: "failed", problem: "busy", error: "no room" });
  Object.assign(conversation, { window: { first: question.id, since: 5 }, summaryOf: "another" });
  assert.deepEqual(importText(exportText([conversation])), [conversation]);
});

test("a file that is no export says why", () => {
  const file = (conversation) => JSON.stringify({ format: "tandem-conversations", version: 1, conversations: [conversation] });
  const good = JSON.parse(exportText([fresh()])).conversations[0];
  assert.throws(() => importText("{"), /not JSON/);
  assert.throws(() => importText("[]"), /not an export/);
  assert.throws(() => importText('{"format":"tandem-conversations","version":2,"conversations":[]}'), /version 2/);
  assert.throws(() => importText(file(null)), /conversations\[0\] is not an object/);
  assert.throws(() => importText(file({ ...good, id: 5 })), /conversations\[0\]\.id is not a string/);
  assert.throws(() => importText(file({ ...good, messages: [{ role: "system" }] })), /messages\[0\]\.role/);
});

test("fields that nobody knows are left behind", () => {
  const conversation = { ...fresh(), extra: 1, sampling: { temperature: "hot", top_k: 3, __proto__: { a: 1 } } };
  const [read] = importText(exportText([conversation]));
  assert.ok(!("extra" in read));
  assert.deepEqual(read.sampling, { top_k: 3 });
});

test("a file whose messages form a ring is shown to its end", () => {
  const conversation = fresh();
  const a = addMessage(conversation, null, { role: "user", text: "a" });
  const b = addMessage(conversation, a.id, { role: "assistant", text: "b" });
  a.parent = b.id;
  assert.deepEqual(texts(conversation), ["a", "b"]);
  chooseBranch(conversation, a);
});

test("layers are named as people would", () => {
  assert.equal(describeLayers(["embed", "0", "1", "2", "7", "output", "cache"]), "embed, layers 0 to 2, 7, output, cache");
  assert.equal(describeLayers(["cache"]), "cache");
  assert.equal(formatBytes(1536), "1.5 KiB");
  assert.equal(formatBytes(24 * 2 ** 30), "24.0 GiB");
});

// Three turns of 100 letters each way; the last answer has told so many tokens.
const threeTurns = (tokens) => {
  const conversation = fresh();
  const stats = { tokens: 0, promptTokens: tokens, cachedTokens: 0, firstTokenMs: 0, totalMs: 0 };
  for (let i = 0; i < 3; i++) {
    const question = addMessage(conversation, conversation.leaf, { role: "user", text: `${i}`.repeat(100) });
    addMessage(conversation, question.id, { role: "assistant", text: "a".repeat(100), ...(i === 2 ? { stats } : {}) });
  }
  return conversation;
};

test("what is left out makes half of the context free", () => {
  const first = (tokens, context) => recentStart(threeTurns(tokens), context)?.text[0];
  assert.equal(first(600, 900), "1"); // 400 of 450 tokens stay
  assert.equal(first(600, 600), "2");
  assert.equal(first(9000, 600), "2", "the last question stays, however long");
  const alone = fresh();
  addMessage(alone, null, { role: "user", text: "long" });
  assert.equal(recentStart(alone, 100), null);
});

test("the model reads the branch from its window on, and older counts of tokens do not hold for it", () => {
  const conversation = threeTurns(600);
  assert.equal(tokensUsed(conversation), 600);
  conversation.window = { first: path(conversation)[2].id, since: Date.now() + 1 };
  assert.deepEqual(readPath(conversation), path(conversation).slice(2));
  assert.equal(tokensUsed(conversation), null);
  conversation.window.first = "of another branch";
  assert.deepEqual(readPath(conversation), path(conversation));
});

test("what two tabs write into a conversation becomes one", () => {
  const mine = fresh();
  const question = addMessage(mine, null, { role: "user", text: "one" });
  const answer = addMessage(mine, question.id, { role: "assistant", text: "u" });
  const other = structuredClone(mine);
  other.messages[1].text = "uno";
  addMessage(other, answer.id, { role: "user", text: "two" });
  answer.reasoning = "mine";
  adopt(mine, other);
  assert.deepEqual(mine.messages.map(({ text }) => text), ["one", "uno", "two"]);
  adopt(mine, JSON.parse(JSON.stringify(fresh())));
  assert.equal(mine.messages.length, 3);
});

test("errors have a kind for the reader and details for the server's keeper", () => {
  const kind = (status, fault) => problemOf(new ApiError("words", status, fault));
  assert.equal(kind(0), "unreachable");
  assert.equal(kind(0, { begun: true }), "lost");
  assert.equal(kind(200, { type: "timeout_error" }), "timeout", "in the middle of a stream");
  assert.equal(kind(200, { type: "server_error", code: "engine_error" }), "server");
  assert.equal(kind(400, { code: "context_length_exceeded" }), "context");
  assert.equal(kind(422), "refused");
  assert.equal(kind(502), "server");
  assert.equal(problemOf(new TypeError("x is not a function")), "page");
  assert.equal(detailsOf(new ApiError("words", 500, { code: "engine_error" })), "HTTP 500, engine_error: words");
  assert.equal(detailsOf(new ApiError("words", 0)), "words");
});
