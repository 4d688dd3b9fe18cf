// Conversations as a JSON file, out and in. What comes in was perhaps made by hand: every field is looked at.

import type { Conversation, Finish, Message, Sampling, Stats } from "./conversation.ts";
import { type Problem, PROBLEMS } from "./problems.ts";

const FORMAT = "tandem-conversations";
const FINISHES: readonly string[] = ["stop", "length", "tool_calls", "stopped", "failed"] satisfies Finish[];
export const SAMPLING_FIELDS = [
  "temperature",
  "top_p",
  "top_k",
  "min_p",
  "max_tokens",
  "seed",
  "frequency_penalty",
  "presence_penalty",
] as const satisfies (keyof Sampling)[];
const STATS_FIELDS = ["tokens", "promptTokens", "cachedTokens", "firstTokenMs", "totalMs"] as const;

export function exportText(conversations: Conversation[]): string {
  return JSON.stringify({ format: FORMAT, version: 1, conversations }, null, 1);
}

// Throws an Error whose message says in one line what is wrong with the file.
export function importText(text: string): Conversation[] {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("The file is not JSON");
  }
  if (!isRecord(file) || file["format"] !== FORMAT || !Array.isArray(file["conversations"])) {
    throw new Error(`The file is not an export of this page: it has no "format": "${FORMAT}"`);
  }
  if (file["version"] !== 1)
    throw new Error(`The file has version ${String(file["version"])}: this page reads version 1`);
  return file["conversations"].map(readConversation);
}

function readConversation(value: unknown, index: number): Conversation {
  const where = `conversations[${index}]`;
  if (!isRecord(value)) throw new Error(`${where} is not an object`);
  const messages = Array.isArray(value["messages"]) ? value["messages"] : [];
  const { leaf, window, summaryOf } = value;
  const conversation: Conversation = {
    id: readText(value, "id", where),
    title: readText(value, "title", where),
    created: readNumber(value, "created", where),
    updated: readNumber(value, "updated", where),
    model: readText(value, "model", where),
    system: readText(value, "system", where),
    sampling: pickNumbers(value["sampling"], SAMPLING_FIELDS),
    leaf: typeof leaf === "string" ? leaf : null,
    messages: messages.map((message, i) => readMessage(message, `${where}.messages[${i}]`)),
  };
  if (isRecord(window) && typeof window["first"] === "string" && typeof window["since"] === "number")
    conversation.window = { first: window["first"], since: window["since"] };
  if (typeof summaryOf === "string") conversation.summaryOf = summaryOf;
  return conversation;
}

function readMessage(value: unknown, where: string): Message {
  if (!isRecord(value)) throw new Error(`${where} is not an object`);
  const { role, parent, finish, problem, stats } = value;
  if (role !== "user" && role !== "assistant") throw new Error(`${where}.role is neither "user" nor "assistant"`);
  const message: Message = {
    id: readText(value, "id", where),
    parent: typeof parent === "string" ? parent : null,
    role,
    text: readText(value, "text", where),
    created: readNumber(value, "created", where),
  };
  for (const field of ["reasoning", "model", "error"] as const) {
    if (typeof value[field] === "string") message[field] = value[field];
  }
  if (typeof finish === "string" && FINISHES.includes(finish)) message.finish = finish as Finish;
  if (PROBLEMS.includes(problem as Problem)) message.problem = problem as Problem;
  const numbers = pickNumbers(stats, STATS_FIELDS);
  if (STATS_FIELDS.every((field) => field in numbers)) message.stats = numbers as Stats;
  return message;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function readText(record: Record<string, unknown>, field: string, where: string): string {
  const value = record[field];
  if (typeof value !== "string") throw new Error(`${where}.${field} is not a string`);
  return value;
}

function readNumber(record: Record<string, unknown>, field: string, where: string): number {
  const value = record[field];
  if (typeof value !== "number" || !Number.isFinite(value)) throw new Error(`${where}.${field} is not a number`);
  return value;
}

function pickNumbers<F extends string>(value: unknown, fields: readonly F[]): { [K in F]?: number } {
  const numbers: { [K in F]?: number } = {};
  if (!isRecord(value)) return numbers;
  for (const field of fields) {
    const number = value[field];
    if (typeof number === "number" && Number.isFinite(number)) numbers[field] = number;
  }
  return numbers;
}
