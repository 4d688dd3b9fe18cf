// What went wrong, in words for the reader of a page: the server's own words are for whoever runs it, and go into the
// details.

import { ApiError } from "./api.ts";

const SENTENCES = {
  lost: "The connection to the server was lost; what had arrived is kept.",
  unreachable: "The server cannot be reached. It may have been stopped, or be starting again.",
  starting: "The server is not ready yet. Try again when the model is loaded.",
  busy: "The server has too much to do at the moment. Try again in a little while.",
  limit: "More was asked with this key than the server allows. Wait a little, then try again.",
  timeout: "The answer took longer than the server allows; what had arrived is kept.",
  key: "The server wants an API key that it knows.",
  forbidden: "The server does not allow this to you. Whoever runs it can.",
  context: "This is more than the model can read at once.",
  size: "The message is too large for the server. Send it in parts.",
  model: "The server does not have this model (any more). Choose another one at the top, then try again.",
  load: "The model could not be loaded. Choose another one at the top, or ask whoever runs the server.",
  refused: "The server did not accept the request. A value in the settings may be out of range.",
  server: "Something went wrong in the server. Try again; its log says more.",
  page: "Something went wrong in this page. Try again, or reload it: what was said is kept.",
};

export type Problem = keyof typeof SENTENCES;
export const PROBLEMS = Object.keys(SENTENCES) as Problem[];

const BY_CODE: Record<string, Problem> = {
  context_length_exceeded: "context",
  invalid_api_key: "key",
  model_load_failed: "load",
  model_not_found: "model",
  rate_limit_exceeded: "limit",
};
const BY_TYPE: Record<string, Problem> = {
  overloaded_error: "busy",
  unavailable_error: "starting",
  timeout_error: "timeout",
};
const BY_STATUS: Record<number, Problem> = {
  401: "key",
  403: "forbidden",
  404: "model",
  408: "timeout",
  413: "size",
  429: "limit",
  503: "starting",
};

export function problemOf(error: unknown): Problem {
  if (!(error instanceof ApiError)) return "page";
  const { status, fault } = error;
  if (status === 0) return fault.begun ? "lost" : "unreachable";
  const known = BY_CODE[fault.code ?? ""] ?? BY_TYPE[fault.type ?? ""] ?? BY_STATUS[status];
  // An error in the middle of a stream comes with the status of the stream.
  return known ?? (status >= 400 && status < 500 ? "refused" : "server");
}

export function sentenceOf(problem: Problem | undefined): string {
  return problem ? SENTENCES[problem] : "The answer failed.";
}

// "HTTP 500, model_load_failed: ...": for whoever runs the server.
export function detailsOf(error: unknown): string {
  if (!(error instanceof ApiError)) return String(error);
  const { status, fault, message } = error;
  const head = [status >= 400 && `HTTP ${status}`, fault.code ?? fault.type].filter(Boolean).join(", ");
  const wait = fault.retryAfter ? ` (try again in ${fault.retryAfter} s)` : "";
  return (head ? `${head}: ${message}` : message) + wait;
}
