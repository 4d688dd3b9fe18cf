// Answers that are being written: one a conversation, going on while another conversation is shown.

import { ApiError, type ChatRequest, streamChat, type Usage } from "./api.ts";
import { SentenceReader, announce } from "./announce.ts";
import { addMessage, type Conversation, type Finish, type Message, readPath, type Stats } from "./conversation.ts";
import { detailsOf, problemOf } from "./problems.ts";

interface Running {
  message: Message;
  stop: AbortController;
}

export interface AnswerWatcher {
  changed(conversation: Conversation, message: Message): void; // at most once a frame
  ended(conversation: Conversation, message: Message, error: unknown): void;
}

export class Answers {
  #running = new Map<string, Running>();
  #watcher: AnswerWatcher;

  constructor(watcher: AnswerWatcher) {
    this.#watcher = watcher;
  }

  message(conversation: Conversation): Message | null {
    return this.#running.get(conversation.id)?.message ?? null;
  }

  stop(conversation: Conversation): void {
    this.#running.get(conversation.id)?.stop.abort();
  }

  // Answers the message `parent` of the conversation; `before` is what the model reads ahead of it.
  start(conversation: Conversation, parent: string, before: Message[] = []): Promise<void> {
    this.stop(conversation);
    conversation.leaf = parent;
    const request = makeRequest(conversation, before);
    const message = addMessage(conversation, parent, { role: "assistant", text: "", model: conversation.model });
    return this.#run(conversation, message, request);
  }

  // Writes on where the answer at the end of the branch has ended.
  goOn(conversation: Conversation, message: Message): Promise<void> {
    this.stop(conversation);
    const request: ChatRequest = { ...makeRequest(conversation, []), continue_final_message: true };
    if (message.reasoning) request["chat_template_kwargs"] = { enable_thinking: false }; // that was done before
    message.model = conversation.model;
    for (const field of ["finish", "problem", "error"] as const) delete message[field];
    return this.#run(conversation, message, request);
  }

  async #run(conversation: Conversation, message: Message, request: ChatRequest): Promise<void> {
    const running = { message, stop: new AbortController() };
    this.#running.set(conversation.id, running);
    announce("Answering");
    let failure: unknown = null;
    try {
      await this.#read(conversation, running, request);
    } catch (error) {
      if (running.stop.signal.aborted) message.finish = "stopped";
      else failure = error;
    }
    if (failure) fail(message, failure);
    if (this.#running.get(conversation.id) === running) this.#running.delete(conversation.id);
    conversation.updated = Date.now();
    this.#watcher.ended(conversation, message, failure);
  }

  async #read(conversation: Conversation, { message, stop }: Running, request: ChatRequest): Promise<void> {
    const begin = performance.now();
    const voice = new SentenceReader(message.text.length);
    let first = 0;
    let frame = 0;
    let usage: Usage | null = null;
    try {
      for await (const chunk of streamChat(request, stop.signal)) {
        usage = chunk.usage ?? usage;
        const choice = chunk.choices[0];
        if (!choice) continue;
        const { content, reasoning_content: reasoning } = choice.delta;
        if (content || reasoning) first ||= performance.now();
        if (content) message.text += content;
        if (reasoning) message.reasoning = (message.reasoning ?? "") + reasoning;
        if (choice.finish_reason) message.finish = choice.finish_reason as Finish;
        frame ||= requestAnimationFrame(() => {
          frame = 0;
          voice.read(message.text, false);
          this.#watcher.changed(conversation, message);
        });
      }
    } finally {
      cancelAnimationFrame(frame); // what ended is not drawn as running any more
    }
    const end = performance.now();
    voice.read(message.text, true);
    const stats = {
      tokens: usage?.completion_tokens ?? 0,
      promptTokens: usage?.prompt_tokens ?? 0,
      cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? 0,
      firstTokenMs: Math.round((first || end) - begin),
      totalMs: Math.round(end - begin),
    };
    message.stats = message.stats ? together(message.stats, stats) : stats;
    const { window } = conversation;
    if (window) window.since = Math.min(window.since, message.created); // its tokens are those of the window
  }
}

// An answer that went on: its first part was in the prompt of the second.
function together(first: Stats, second: Stats): Stats {
  return {
    tokens: first.tokens + second.tokens,
    promptTokens: Math.max(0, second.promptTokens - first.tokens),
    cachedTokens: second.cachedTokens,
    firstTokenMs: first.firstTokenMs,
    totalMs: first.totalMs + second.totalMs - second.firstTokenMs,
  };
}

function fail(message: Message, failure: unknown): void {
  message.finish = "failed";
  message.problem = problemOf(failure);
  message.error = detailsOf(failure);
  const promptTokens = failure instanceof ApiError ? failure.fault.promptTokens : undefined;
  if (promptTokens) message.stats = { tokens: 0, promptTokens, cachedTokens: 0, firstTokenMs: 0, totalMs: 0 };
}

// What was too long is not sent again with the next question, and chat templates want question and answer in turn:
// questions that were never answered are one with the next.
function makeRequest(conversation: Conversation, before: Message[]): ChatRequest {
  const messages: ChatRequest["messages"] = [];
  for (const { role, text, problem } of [...before, ...readPath(conversation)]) {
    const last = messages.at(-1);
    if (role === "assistant" && text === "") {
      if (problem === "context" || problem === "size") messages.pop();
    } else if (role === "user" && last?.role === "user") last.content += `\n\n${text}`;
    else messages.push({ role, content: text });
  }
  if (conversation.system) messages.unshift({ role: "system", content: conversation.system });
  return { ...(conversation.model ? { model: conversation.model } : {}), messages, ...conversation.sampling };
}
