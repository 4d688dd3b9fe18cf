// How an answer ended, when it did not end by itself, and the ways on from there.

import { type Conversation, type Message, recentStart, tokensUsed } from "./conversation.ts";
import { h } from "./dom.ts";
import { sentenceOf } from "./problems.ts";

export interface EndingActions {
  retry(message: Message): void;
  goOn(message: Message): void; // writes on where it ended
  leaveOut(message: Message): void; // of the oldest messages what takes too much room, then goes on
  summarise(): void; // in a conversation of its own
  editQuestion(message: Message): void;
  askForKey(): void;
  openSettings(): void;
  context(conversation: Conversation): number | undefined; // tokens the model can read at once
}

interface Way {
  label: string;
  run: () => void;
}

export function drawEnding(conversation: Conversation, message: Message, actions: EndingActions): HTMLElement[] {
  const { finish } = message;
  if (finish === "stop" || finish === "tool_calls") return [];
  const isLast = conversation.leaf === message.id;
  const isFull = isContextFull(conversation, message, actions);
  const ways = isLast ? waysOn(conversation, message, isFull, actions) : [];
  if (finish === "failed") {
    const sentence = isFull ? tooLong(conversation, message, actions) : whyItFailed(message);
    return [failure(sentence, message.error, ways)];
  }
  const why =
    finish === "length"
      ? isFull
        ? "The conversation fills all that the model can read at once, so the answer ends here."
        : "The length limit was reached."
      : finish === "stopped"
        ? "Stopped."
        : "The answer was cut off.";
  return [h("div", { class: "ending" }, h("p", {}, why), wayButtons(ways))];
}

function isContextFull(conversation: Conversation, { finish, problem, id }: Message, actions: EndingActions): boolean {
  if (problem === "context") return true;
  const context = actions.context(conversation);
  const used = conversation.leaf === id ? tokensUsed(conversation) : null;
  return finish === "length" && used !== null && context !== undefined && used >= context;
}

function canLeaveOut(conversation: Conversation, actions: EndingActions): boolean {
  const context = actions.context(conversation);
  return context !== undefined && recentStart(conversation, context) !== null;
}

function waysOn(conversation: Conversation, message: Message, isFull: boolean, actions: EndingActions): Way[] {
  const retry = { label: "Retry", run: () => actions.retry(message) };
  const goOn = { label: "Continue", run: () => actions.goOn(message) };
  if (isFull) {
    const summary = { label: "New conversation with a summary", run: () => actions.summarise() };
    if (canLeaveOut(conversation, actions))
      return [{ label: "Leave out the oldest messages", run: () => actions.leaveOut(message) }, summary];
    if (message.finish === "length") return [summary];
    return [{ label: "Shorten the message", run: () => actions.editQuestion(message) }];
  }
  if (message.problem === "key") return [{ label: "Enter the key", run: () => actions.askForKey() }, retry];
  if (message.problem === "refused") return [{ label: "Settings", run: () => actions.openSettings() }, retry];
  const hasText = message.text.trim() !== "";
  if (message.finish !== "failed") return hasText ? [goOn] : [];
  return hasText ? [goOn, retry] : [retry];
}

function whyItFailed({ problem, text }: Message): string {
  return problem === "lost" && text === ""
    ? "The connection to the server was lost before the answer began."
    : sentenceOf(problem);
}

function tooLong(conversation: Conversation, { stats }: Message, actions: EndingActions): string {
  const what = canLeaveOut(conversation, actions) ? "The conversation" : "This message alone";
  const context = actions.context(conversation);
  const count = (tokens: number) => tokens.toLocaleString("en");
  const sizes = stats && context ? ` (${count(stats.promptTokens)} tokens, where ${count(context)} fit)` : "";
  return `${what} is longer than the model can read at once${sizes}.`;
}

function failure(sentence: string, details: string | undefined, ways: Way[]): HTMLElement {
  return h(
    "div",
    { class: "error", role: "alert" },
    h("p", {}, sentence),
    wayButtons(ways),
    details ? h("details", {}, h("summary", {}, "Details"), h("p", {}, details)) : null,
  );
}

function wayButtons(ways: Way[]): HTMLElement | null {
  if (ways.length === 0) return null;
  const buttons = ways.map(({ label, run }) => h("button", { type: "button", class: "quiet", onclick: run }, label));
  return h("div", { class: "ways" }, ...buttons);
}
