// What the page asks the server: models, chat, and the live view of the machine.

import { preferences } from "./preferences.ts";
import { readEvents, readLines } from "./sse.ts";

export interface Model {
  id: string;
  state?: string;
  max_model_len?: number; // its context, once it has been loaded
  default_sampling?: Record<string, number>;
}

// One that is on the server's machine, as Ollama's API has it.
export interface LocalModel {
  name: string;
  size: number; // bytes
  details: { family?: string; parameter_size?: string; quantization_level?: string };
}

// What can be fetched by a short name.
export interface Catalog {
  can_pull: boolean;
  largest_bytes: number; // of a model that fits the machine
  models: { name: string; size_gb: number; fits: boolean; about: string; here: string | null }[];
}

// One file of a model on its way, or a word on what is done.
export interface PullLine {
  status?: string;
  digest?: string;
  total?: number;
  completed?: number;
  error?: string;
}

export interface ChatRequest {
  model?: string;
  messages: { role: "system" | "user" | "assistant"; content: string }[];
  [option: string]: unknown;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens?: number };
}

export interface ChatChunk {
  choices: {
    delta: { content?: string | null; reasoning_content?: string | null };
    finish_reason: string | null;
  }[];
  usage?: Usage | null;
  error?: ErrorBody;
}

interface ErrorBody {
  message?: string;
  type?: string;
  code?: string | number | null;
  n_prompt_tokens?: number;
}

export interface Pool {
  name: string;
  bytes: number;
  used: number;
}

export interface Live {
  time: number;
  tokens_per_second: number;
  prompt_tokens_per_second: number;
  time_to_first_token: { p50: number; p95: number };
  requests: { running: number; waiting: number };
  models: {
    name: string;
    state: string;
    progress: number;
    context: number;
    cache_usage: number;
    cache_blocks: number;
    cached_share: number;
  }[];
  devices: { name: string; kind: string; utilisation: number; pools: Pool[] }[];
  memory_map: { model: string; layer: string | number; device: string; pool: string; bytes: number }[];
}

export interface Health {
  status: string; // "ok", "loading", "draining", "error"
  progress?: number;
}

// What the server said of an error besides its message.
export interface Fault {
  type?: string | undefined;
  code?: string | undefined;
  promptTokens?: number | undefined; // of a prompt that was too long
  retryAfter?: string | undefined; // seconds
  begun?: boolean; // the connection broke after the answer had begun
}

// An answer that is no success, or none at all; the message is one line in the server's words.
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number, // 0: the server could not be reached
    readonly fault: Fault = {},
  ) {
    super(message);
  }
}

export async function listModels(): Promise<Model[]> {
  const response = await ask("v1/models", {});
  return ((await response.json()) as { data: Model[] }).data;
}

export async function listLocal(): Promise<LocalModel[]> {
  const response = await ask("api/tags", {});
  return ((await response.json()) as { models: LocalModel[] }).models;
}

export async function readCatalog(): Promise<Catalog> {
  return (await (await ask("api/tandem/catalog", {})).json()) as Catalog;
}

export async function* pullModel(name: string, signal: AbortSignal): AsyncGenerator<PullLine> {
  const response = await ask("api/pull", { method: "POST", body: JSON.stringify({ model: name }), signal });
  let succeeded = false;
  for await (const text of unbroken(readLines(response.body!), signal)) {
    const line = JSON.parse(text) as PullLine;
    if (line.error) throw errorOf({ message: line.error }, response.status);
    succeeded ||= line.status === "success";
    yield line;
  }
  if (!succeeded) throw new ApiError("The connection ended before the model was there", 0, { begun: true });
}

// Null: nobody answers.
export async function askHealth(): Promise<Health | null> {
  try {
    const response = await fetch("health", { cache: "no-store" });
    return (await response.json()) as Health;
  } catch {
    return null;
  }
}

export async function* streamChat(request: ChatRequest, signal: AbortSignal): AsyncGenerator<ChatChunk> {
  const body = JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } });
  const response = await ask("v1/chat/completions", { method: "POST", body, signal });
  let complete = false;
  for await (const data of events(response, signal)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data) as ChatChunk;
    if (chunk.error) throw errorOf(chunk.error, response.status);
    complete ||= chunk.choices.some((choice) => choice.finish_reason !== null);
    yield chunk;
  }
  if (!complete) throw new ApiError("The connection ended before the answer did", 0, { begun: true });
}

export async function* streamLive(signal: AbortSignal): AsyncGenerator<Live> {
  const response = await ask("api/tandem/live", { signal });
  for await (const data of events(response, signal)) yield JSON.parse(data) as Live;
}

function events(response: Response, signal: AbortSignal): AsyncGenerator<string> {
  return unbroken(readEvents(response.body!), signal);
}

// A connection that breaks is told by the browser as a TypeError of its own words.
async function* unbroken(parts: AsyncGenerator<string>, signal: AbortSignal): AsyncGenerator<string> {
  try {
    yield* parts;
  } catch (error) {
    if (signal.aborted) throw error;
    throw new ApiError(String((error as Error).message), 0, { begun: true });
  }
}

async function ask(path: string, options: RequestInit): Promise<Response> {
  const headers: Record<string, string> = {};
  if (options.body) headers["Content-Type"] = "application/json";
  if (preferences().key) headers["Authorization"] = `Bearer ${preferences().key}`;
  let response: Response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(String((error as Error).message), 0);
  }
  if (!response.ok) throw await readError(response);
  return response;
}

async function readError(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  const retryAfter = response.headers.get("Retry-After") ?? undefined;
  try {
    const { error } = JSON.parse(text) as { error?: ErrorBody | string };
    if (error) return errorOf(typeof error === "string" ? { message: error } : error, response.status, retryAfter);
  } catch {
    // not JSON: a proxy's page, perhaps
  }
  return errorOf({ message: text }, response.status, retryAfter);
}

function errorOf(body: ErrorBody, status: number, retryAfter?: string): ApiError {
  return new ApiError(oneLine(body.message ?? "") || `The server answered ${status}`, status, {
    type: body.type,
    code: typeof body.code === "string" ? body.code : undefined,
    promptTokens: body.n_prompt_tokens,
    retryAfter,
  });
}

function oneLine(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > 300 ? `${line.slice(0, 299)}…` : line;
}
