// The messages of the conversation that is shown.

import { type Conversation, type Message, path, siblings } from "./conversation.ts";
import { copyButton, find, h, iconButton, logo } from "./dom.ts";
import { type EndingActions, drawEnding } from "./ending_view.ts";
import { MarkdownView } from "./markdown.ts";

export interface MessageActions extends EndingActions {
  edit(message: Message, text: string): void; // sends the text as another branch
  choose(message: Message): void; // shows its branch
  ask(text: string): void;
  hasNoModels(): boolean;
  readAll(): void; // the model reads the whole branch again
}

const AT_ONCE = 100; // messages of a long conversation; the others when they are asked for
const LONG_LETTERS = 4000; // of a message that was pasted: folded
const SUGGESTIONS = [
  "Tell me a story about a fox and a lantern.",
  "What is the opposite of cold?",
  "What do bees make?",
];

class MessageView {
  readonly element: HTMLElement;
  #head = h("div", { class: "message-head" });
  #body: HTMLElement;
  #foot = h("footer", { class: "message-foot" });
  #markdown = new MarkdownView();
  #tail = h("div");
  #alone = false;
  #reasoning: { details: HTMLDetailsElement; text: HTMLElement } | null = null;

  constructor(
    public message: Message, // another tab may have a longer one
    private actions: MessageActions,
  ) {
    this.#body = h("div", { class: "message-body", dir: message.role === "user" && "auto" });
    this.element = h(
      "article",
      {
        class: `message ${message.role}`,
        "aria-label": message.role === "user" ? "You" : "Answer",
        "data-id": message.id,
      },
      message.role === "assistant" && this.#head,
      this.#body,
      this.#foot,
    );
  }

  draw(conversation: Conversation, running: boolean): void {
    const { message } = this;
    this.#head.textContent = message.model || "Tandem";
    if (message.role === "user") this.#drawQuestion();
    else this.#drawAnswer(conversation, running);
    this.element.setAttribute("aria-busy", String(running));
    this.#foot.replaceChildren(...(running ? [] : this.#tools(conversation)));
  }

  #drawQuestion(): void {
    const { text } = this.message;
    if (this.#body.hasChildNodes()) return; // questions do not change
    this.#body.replaceChildren(text);
    if (text.length < LONG_LETTERS) return;
    const fold = (folded: boolean) => {
      this.#body.classList.toggle("folded", folded);
      button.textContent = folded ? `Show all ${text.length.toLocaleString("en")} characters` : "Show less";
      button.setAttribute("aria-expanded", String(!folded));
    };
    const onclick = () => fold(!this.#body.classList.contains("folded"));
    const button = h("button", { type: "button", class: "quiet unfold", onclick });
    this.#body.append(button);
    fold(true);
  }

  // Elements stay where they are while the answer grows, and selections in them too.
  #drawAnswer(conversation: Conversation, running: boolean): void {
    const { message } = this;
    if (!this.#body.hasChildNodes()) this.#body.append(this.#markdown.element, this.#tail);
    if (message.reasoning) this.#drawReasoning(message.reasoning, running && !message.text);
    this.#markdown.update(message.text, !running);
    const waits = running && !message.text && !message.reasoning;
    const ending = running ? [] : drawEnding(conversation, message, this.actions);
    this.#tail.replaceChildren(...(waits ? [waitingDots()] : ending));
  }

  // Open while there is nothing else to read, unless the reader has closed it.
  #drawReasoning(text: string, alone: boolean): void {
    if (!this.#reasoning) {
      const body = h("div", { class: "reasoning-text", dir: "auto" });
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
    const area = h("textarea", { class: "edit-area", dir: "auto", "aria-label": "Edit your message", rows: 2 });
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
  #conversation = ""; // the one that is shown
  #most = AT_ONCE;
  #follows = true; // the end stays in view while an answer grows

  constructor(private actions: MessageActions) {
    this.#scroller.addEventListener("scroll", () => this.#readScroll(), { passive: true });
    this.#toEnd.addEventListener("click", () => this.scrollToEnd());
  }

  // What is there already stays: selections, folds and forms in it too.
  show(conversation: Conversation, running: Message | null): void {
    const end = this.#views.at(-1)?.message.id;
    if (this.#conversation !== conversation.id) this.#most = AT_ONCE;
    this.#conversation = conversation.id;
    const known = new Map(this.#views.map((view) => [view.message.id, view]));
    const messages = path(conversation);
    this.#views = messages.slice(-this.#most).map((message) => this.#viewOf(message, known.get(message.id)));
    for (const view of this.#views) view.draw(conversation, view.message === running);
    const elements = this.#views.map(({ element }) => element);
    if (messages.length > this.#most) elements.unshift(this.#earlier(conversation, running));
    this.#list.replaceChildren(...(elements.length > 0 ? elements : [this.#welcome()]));
    this.#markUnread(conversation);
    if (this.#follows || end !== this.#views.at(-1)?.message.id) this.scrollToEnd();
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

  #viewOf(message: Message, known: MessageView | undefined): MessageView {
    if (known?.message.role !== message.role) return new MessageView(message, this.actions);
    known.message = message;
    return known;
  }

  #earlier(conversation: Conversation, running: Message | null): HTMLElement {
    const onclick = () => {
      const first = this.#views[0]?.element;
      const top = first?.getBoundingClientRect().top ?? 0;
      this.#most += AT_ONCE;
      this.#follows = false;
      this.show(conversation, running);
      this.#scroller.scrollTop += (first?.getBoundingClientRect().top ?? 0) - top; // what was read stays in place
    };
    return h("button", { type: "button", class: "quiet earlier", onclick }, "Show earlier messages");
  }

  // What the model no longer reads is shown as such.
  #markUnread(conversation: Conversation): void {
    const first = this.#views.findIndex(({ message }) => message.id === conversation.window?.first);
    this.#views.forEach(({ element }, i) => element.classList.toggle("unread", i < first));
    if (first <= 0) return;
    this.#views[first]!.element.before(
      h(
        "p",
        { class: "window" },
        "The model no longer reads what is above. ",
        h("button", { type: "button", class: "quiet", onclick: () => this.actions.readAll() }, "Read it again"),
      ),
    );
  }

  #welcome(): HTMLElement {
    const button = (text: string) =>
      h("li", {}, h("button", { type: "button", class: "suggestion", onclick: () => this.actions.ask(text) }, text));
    if (this.actions.hasNoModels()) {
      const advice = "“Models” at the top fetches one, where the server allows it; or start it with “tandem serve MODEL”.";
      return h("div", { class: "welcome" }, logo(), h("h2", {}, "This server has no model yet."), h("p", {}, advice));
    }
    return h(
      "div",
      { class: "welcome" },
      logo(),
      h("h2", {}, "Good to see you."),
      h("p", {}, "Everything said here is answered by this machine, and kept only in this browser."),
      h("ul", { class: "suggestions", "aria-label": "Suggestions" }, ...SUGGESTIONS.map(button)),
    );
  }
}
