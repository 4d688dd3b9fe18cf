// The messages of the conversation that is shown.

import { type Conversation, type Message, path, siblings } from "./conversation.ts";
import { copyButton, find, h, iconButton } from "./dom.ts";
import { MarkdownView } from "./markdown.ts";

export interface MessageActions {
  edit(message: Message, text: string): void; // sends the text as another branch
  retry(message: Message): void;
  choose(message: Message): void; // shows its branch
  ask(text: string): void;
}

const SUGGESTIONS = [
  "Tell me a story about a fox and a lantern.",
  "What is the opposite of cold?",
  "What do bees make?",
];

class MessageView {
  readonly element: HTMLElement;
  #body = h("div", { class: "message-body" });
  #foot = h("footer", { class: "message-foot" });
  #markdown = new MarkdownView();
  #tail = h("div");
  #alone = false;
  #reasoning: { details: HTMLDetailsElement; text: HTMLElement } | null = null;

  constructor(
    readonly message: Message,
    private actions: MessageActions,
  ) {
    const who = message.role === "user" ? "You" : message.model || "Tandem";
    this.element = h(
      "article",
      {
        class: `message ${message.role}`,
        "aria-label": message.role === "user" ? "You" : "Answer",
        "data-id": message.id,
      },
      message.role === "assistant" && h("div", { class: "message-head" }, who),
      this.#body,
      this.#foot,
    );
  }

  draw(conversation: Conversation, running: boolean): void {
    const { message } = this;
    if (message.role === "user") this.#body.replaceChildren(message.text);
    else this.#drawAnswer(running);
    this.element.setAttribute("aria-busy", String(running));
    this.#foot.replaceChildren(...(running ? [] : this.#tools(conversation)));
  }

  // Elements stay where they are while the answer grows, and selections in them too.
  #drawAnswer(running: boolean): void {
    const { message } = this;
    if (!this.#body.hasChildNodes()) this.#body.append(this.#markdown.element, this.#tail);
    if (message.reasoning) this.#drawReasoning(message.reasoning, running && !message.text);
    this.#markdown.update(message.text, !running);
    const waits = running && !message.text && !message.reasoning;
    this.#tail.replaceChildren(...(waits ? [waitingDots()] : this.#ending(running)));
  }

  // Open while there is nothing else to read, unless the reader has closed it.
  #drawReasoning(text: string, alone: boolean): void {
    if (!this.#reasoning) {
      const body = h("div", { class: "reasoning-text" });
      const details = h("details", { class: "reasoning" }, h("summary", {}, "Thinking"), body);
      details.open = alone;
      this.#reasoning = { details, text: body };
      this.#body.prepend(details);
    } else if (this.#alone && !alone) {
      this.#reasoning.details.open = false;
    }
    this.#alone = alone;
    if (this.#reasoning.text.textContent !== text) this.#reasoning.text.textContent = text;
  }

  #ending(running: boolean): HTMLElement[] {
    const { finish, error } = this.message;
    if (running || finish === "stop" || finish === "tool_calls") return [];
    if (finish === "failed") return [h("p", { class: "error", role: "alert" }, error ?? "The answer failed")];
    const why =
      finish === "length"
        ? "The length limit was reached."
        : finish === "stopped"
          ? "Stopped."
          : "The answer was cut off.";
    return [h("p", { class: "ending" }, why)];
  }

  #tools(conversation: Conversation): HTMLElement[] {
    const { message, actions } = this;
    const tools: HTMLElement[] = [];
    const branches = siblings(conversation, message);
    if (branches.length > 1) tools.push(this.#branchPicker(branches));
    tools.push(copyButton(() => message.text));
    if (message.role === "user") {
      tools.push(iconButton("pencil", "Edit", () => this.startEdit()));
    } else {
      tools.push(iconButton("retry", "Retry", () => actions.retry(message)));
      if (message.stats && message.stats.tokens > 0) tools.push(statsLine(message));
    }
    return tools;
  }

  #branchPicker(branches: Message[]): HTMLElement {
    const at = branches.indexOf(this.message);
    const go = (step: number) => () => {
      const target = branches[at + step];
      if (target) this.actions.choose(target);
    };
    const back = iconButton("left", "Previous version", go(-1));
    const on = iconButton("right", "Next version", go(1));
    back.disabled = at === 0;
    on.disabled = at === branches.length - 1;
    return h(
      "span",
      { class: "branches", role: "group", "aria-label": "Versions" },
      back,
      `${at + 1} of ${branches.length}`,
      on,
    );
  }

  startEdit(): void {
    const area = h("textarea", { class: "edit-area", "aria-label": "Edit your message", rows: 2 });
    area.value = this.message.text;
    const done = (text: string | null) => {
      form.replaceWith(this.#body);
      this.#foot.hidden = false;
      if (text !== null && text.trim() !== "") this.actions.edit(this.message, text.trim());
      else this.#foot.querySelector<HTMLElement>("[aria-label=Edit]")?.focus();
    };
    const form = h(
      "form",
      {
        class: "edit-form",
        onsubmit: (event: Event) => {
          event.preventDefault();
          done(area.value);
        },
        onkeydown: (event: KeyboardEvent) => {
          if (event.key === "Escape") done(null);
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          done(area.value);
        },
      },
      area,
      h(
        "div",
        { class: "edit-buttons" },
        h("button", { type: "button", class: "quiet", onclick: () => done(null) }, "Cancel"),
        h("button", { type: "submit", class: "primary" }, "Send"),
      ),
    );
    this.#body.replaceWith(form);
    this.#foot.hidden = true;
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  }
}

function waitingDots(): HTMLElement {
  const props = { class: "waiting", role: "img", "aria-label": "Waiting for the answer" };
  return h("div", props, h("i"), h("i"), h("i"));
}

function statsLine({ stats, model }: Message): HTMLElement {
  const { tokens, promptTokens, cachedTokens, firstTokenMs, totalMs } = stats!;
  const decodeMs = totalMs - firstTokenMs;
  const rate = tokens > 1 && decodeMs > 0 ? ((tokens - 1) * 1000) / decodeMs : 0;
  const parts = [
    rate > 0 ? `${rate < 10 ? rate.toFixed(1) : Math.round(rate)} tokens/s` : "",
    `${tokens} tokens`,
    `first after ${(firstTokenMs / 1000).toFixed(2)} s`,
  ];
  const prompt = `${promptTokens} prompt tokens, ${cachedTokens} of them from the cache`;
  const title = `${model ?? ""}: ${prompt}; ${(totalMs / 1000).toFixed(1)} s in all`;
  return h("span", { class: "stats", title }, parts.filter(Boolean).join(" · "));
}

export class MessagesView {
  #list = find("messages");
  #scroller = find("scroller");
  #toEnd = find("to-end");
  #views: MessageView[] = [];
  #follows = true; // the end stays in view while an answer grows

  constructor(private actions: MessageActions) {
    this.#scroller.addEventListener("scroll", () => this.#readScroll(), { passive: true });
    this.#toEnd.addEventListener("click", () => this.scrollToEnd());
  }

  show(conversation: Conversation, running: Message | null): void {
    this.#views = path(conversation).map((message) => new MessageView(message, this.actions));
    for (const view of this.#views) view.draw(conversation, view.message === running);
    if (this.#views.length > 0) this.#list.replaceChildren(...this.#views.map((view) => view.element));
    else this.#list.replaceChildren(this.#welcome());
    this.scrollToEnd();
  }

  update(conversation: Conversation, message: Message, running: boolean): void {
    this.#views.find((view) => view.message === message)?.draw(conversation, running);
    if (this.#follows) this.scrollToEnd();
  }

  editLast(): void {
    this.#views.findLast((view) => view.message.role === "user")?.startEdit();
  }

  scrollToEnd(): void {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#readScroll();
  }

  #readScroll(): void {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    this.#follows = scrollHeight - scrollTop - clientHeight < 48;
    this.#toEnd.hidden = this.#follows;
  }

  #welcome(): HTMLElement {
    const button = (text: string) =>
      h("li", {}, h("button", { type: "button", class: "suggestion", onclick: () => this.actions.ask(text) }, text));
    return h(
      "div",
      { class: "welcome" },
      h("img", { src: "icon.svg", alt: "", width: 56, height: 56 }),
      h("h2", {}, "Good to see you."),
      h("p", {}, "Everything said here is answered by this machine, and kept only in this browser."),
      h("ul", { class: "suggestions", "aria-label": "Suggestions" }, ...SUGGESTIONS.map(button)),
    );
  }
}
