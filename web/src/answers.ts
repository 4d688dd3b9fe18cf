// Answers that are being written: one a conversation, going on while another conversation is shown.

import { ApiError, type ChatRequest, streamChat, type Usage } from "./api.ts";
import { SentenceReader, announce } from "./announce.ts";
import { addMessage, type Conversation, type Finish, type Message, path } from "./conversation.ts";

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

  // Answers the message `parent` of the conversation.
  async start(conversation: Conversation, parent: string): Promise<void> {
    this.stop(conversation);
    conversation.leaf = parent;
    const request = makeRequest(conversation);
    const message = addMessage(conversation, parent, { role: "assistant", text: "", model: conversation.model });
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
    if (failure) {
      message.finish = "failed";
      message.error = failure instanceof ApiError ? failure.message : `The page failed: ${String(failure)}`;
    }
    if (this.#running.get(conversation.id) === running) this.#running.delete(conversation.id);
    conversation.updated = Date.now();
    this.#watcher.ended(conversation, message, failure);
  }

  async #read(conversation: Conversation, { message, stop }: Running, request: ChatRequest): Promise<void> {
    const begin = performance.now();
    const voice = new SentenceReader();
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
    message.stats = {
      tokens: usage?.completion_tokens ?? 0,
      promptTokens: usage?.prompt_tokens ?? 0,
      cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? 0,
      firstTokenMs: Math.round((first || end) - begin),
      totalMs: Math.round(end - begin),
    };
  }
}

function makeRequest(conversation: Conversation): ChatRequest {
  const messages: ChatRequest["messages"] = path(conversation)
    .filter((message) => message.role === "user" || message.text !== "")
    .map((message) => ({ role: message.role, content: message.text }));
  if (conversation.system) messages.unshift({ role: "system", content: conversation.system });
  return { ...(conversation.model ? { model: conversation.model } : {}), messages, ...conversation.sampling };
}
