// Conversations: trees of messages. An edit or a retry adds a branch, so nothing that was said is lost.

import type { Problem } from "./problems.ts";

export interface Sampling {
  temperature?: number;
  top_p?: number;
  top_k?: number;
  min_p?: number;
  max_tokens?: number;
  seed?: number;
  frequency_penalty?: number;
  presence_penalty?: number;
}

export interface Stats {
  tokens: number; // of the answer
  promptTokens: number;
  cachedTokens: number;
  firstTokenMs: number;
  totalMs: number;
}

export type Finish = "stop" | "length" | "tool_calls" | "stopped" | "failed";

export interface Message {
  id: string;
  parent: string | null;
  role: "user" | "assistant";
  text: string;
  created: number; // Unix milliseconds
  reasoning?: string;
  model?: string;
  finish?: Finish; // of an answer; none: it still comes, or was cut off
  problem?: Problem; // why it failed
  error?: string; // the same in the server's words
  stats?: Stats;
}

// The model reads the branch from this message on; what is before is shown only.
export interface Window {
  first: string;
  since: number; // Unix milliseconds: answers from before have counted the tokens of more
}

export interface Conversation {
  id: string;
  title: string;
  created: number;
  updated: number;
  model: string;
  system: string;
  sampling: Sampling;
  leaf: string | null; // the end of the branch that is shown
  messages: Message[];
  window?: Window;
  summaryOf?: string; // the conversation that its first question is about
}

const TITLE_LENGTH = 60;

export function newConversation(from: Pick<Conversation, "model" | "system" | "sampling">): Conversation {
  const now = Date.now();
  return {
    id: randomId(),
    title: "",
    created: now,
    updated: now,
    model: from.model,
    system: from.system,
    sampling: { ...from.sampling },
    leaf: null,
    messages: [],
  };
}

// crypto.randomUUID is not there on plain HTTP from another machine.
export function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// The messages from the first to the leaf.
export function path(conversation: Conversation): Message[] {
  const byId = new Map(conversation.messages.map((message) => [message.id, message]));
  const messages: Message[] = [];
  for (let id = conversation.leaf; id !== null;) {
    const message = byId.get(id);
    if (!message) break;
    byId.delete(id); // a file that was made by hand may have a ring
    messages.push(message);
    id = message.parent;
  }
  return messages.reverse();
}

// What the model reads of them.
export function readPath(conversation: Conversation): Message[] {
  const messages = path(conversation);
  const first = messages.findIndex(({ id }) => id === conversation.window?.first);
  return first > 0 ? messages.slice(first) : messages;
}

// The tokens of the context that the branch takes, as the last answer has told; null: no answer has.
export function tokensUsed(conversation: Conversation): number | null {
  const since = conversation.window?.since ?? 0;
  const last = readPath(conversation).findLast(({ stats, created }) => stats?.promptTokens && created >= since);
  if (!last?.stats) return null;
  const { promptTokens, tokens } = last.stats;
  return promptTokens + Math.max(0, tokens - 1); // the last token of an answer has not been read yet
}

// The question from which on the branch takes half of the context or less, the last one at the latest; null: none is
// before it that could be left out.
export function recentStart(conversation: Conversation, context: number): Message | null {
  const messages = readPath(conversation);
  const length = (from: number) => messages.slice(from).reduce((sum, { text }) => sum + text.length, 0);
  const used = tokensUsed(conversation) ?? context;
  const most = (length(0) * context) / 2 / Math.max(1, used); // letters that make half of the context
  const questions = messages.flatMap(({ role }, i) => (role === "user" && i > 0 ? [i] : []));
  const start = questions.find((i) => length(i) <= most) ?? questions.at(-1);
  return start === undefined ? null : messages[start]!;
}

export function siblings(conversation: Conversation, message: Message): Message[] {
  return conversation.messages.filter((other) => other.parent === message.parent && other.role === message.role);
}

export function addMessage(
  conversation: Conversation,
  parent: string | null,
  message: Pick<Message, "role" | "text"> & Partial<Message>,
): Message {
  const added: Message = { ...message, id: randomId(), parent, created: Date.now() };
  conversation.messages.push(added);
  conversation.leaf = added.id;
  conversation.updated = added.created;
  conversation.title ||= firstTitle(conversation);
  return added;
}

// Takes over what another tab has written meanwhile: nothing is ever taken away, and answers only grow.
export function adopt(conversation: Conversation, other: Conversation): void {
  const known = new Map(conversation.messages.map((message) => [message.id, message]));
  for (const message of other.messages) {
    const mine = known.get(message.id);
    if (!mine) conversation.messages.push(message);
    else if (message.text.length > mine.text.length) Object.assign(mine, message);
  }
}

// Shows the branch of this message: down to the newest of its descendants.
export function chooseBranch(conversation: Conversation, message: Message): void {
  const children = new Map<string, Message>();
  for (const other of conversation.messages) {
    if (other.parent !== null) children.set(other.parent, other); // the newest is the last
  }
  let leaf = message;
  for (let next = children.get(leaf.id); next; next = children.get(leaf.id)) {
    children.delete(leaf.id);
    leaf = next;
  }
  conversation.leaf = leaf.id;
}

// What the first message begins with; nothing when there is none.
export function firstTitle(conversation: Conversation): string {
  const line = conversation.messages[0]?.text.trim().split("\n", 1)[0] ?? "";
  return line.length > TITLE_LENGTH ? `${line.slice(0, TITLE_LENGTH - 1).trimEnd()}…` : line;
}
