// What the page asks the server: models, chat, and the live view of the machine.

import { preferences } from "./preferences.ts";
import { readEvents } from "./sse.ts";

export interface Model {
  id: string;
  max_model_len?: number;
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
  error?: { message: string };
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

// An answer that is no success, or none at all; the message is one line for people.
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number, // 0: the server could not be reached
  ) {
    super(message);
  }
}

export async function listModels(): Promise<Model[]> {
  const response = await ask("v1/models", {});
  return ((await response.json()) as { data: Model[] }).data;
}

export async function* streamChat(request: ChatRequest, signal: AbortSignal): AsyncGenerator<ChatChunk> {
  const body = JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } });
  const response = await ask("v1/chat/completions", { method: "POST", body, signal });
  let complete = false;
  for await (const data of readEvents(response.body!)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data) as ChatChunk;
    if (chunk.error) throw new ApiError(oneLine(chunk.error.message), response.status);
    complete ||= chunk.choices.some((choice) => choice.finish_reason !== null);
    yield chunk;
  }
  if (!complete) throw new ApiError("The connection ended before the answer did", 0);
}

export async function* streamLive(signal: AbortSignal): AsyncGenerator<Live> {
  const response = await ask("api/tandem/live", { signal });
  for await (const data of readEvents(response.body!)) yield JSON.parse(data) as Live;
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
    throw new ApiError("The server cannot be reached", 0);
  }
  if (!response.ok) throw await readError(response);
  return response;
}

async function readError(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  let message = text;
  try {
    const body = JSON.parse(text) as { error?: { message?: string } | string };
    message = (typeof body.error === "string" ? body.error : body.error?.message) ?? text;
  } catch {
    // not JSON: a proxy's page, perhaps
  }
  const wait = response.headers.get("Retry-After");
  const hint = wait && response.status !== 401 ? ` (try again in ${wait} s)` : "";
  return new ApiError((oneLine(message) || `The server answered ${response.status}`) + hint, response.status);
}

function oneLine(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > 300 ? `${line.slice(0, 299)}…` : line;
}
