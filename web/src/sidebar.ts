// The list of conversations, with search, export and import.

import type { Conversation } from "./conversation.ts";
import { find, h, iconButton } from "./dom.ts";

export interface SidebarActions {
  open(id: string): void;
  remove(id: string): void;
  exportAll(): void;
  importFile(file: File): void;
}

const DAY_MS = 86_400_000;

function ageOf(conversation: Conversation): string {
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (conversation.updated >= midnight) return "Today";
  if (conversation.updated >= midnight - DAY_MS) return "Yesterday";
  if (conversation.updated >= midnight - 6 * DAY_MS) return "This week";
  return "Earlier";
}

export class Sidebar {
  #list = find("conversations");
  #search = find<HTMLInputElement>("search");
  #conversations: Conversation[] = [];
  #current = "";

  constructor(private actions: SidebarActions) {
    this.#search.addEventListener("input", () => this.#draw());
    find("export").addEventListener("click", () => actions.exportAll());
    const file = find<HTMLInputElement>("import-file");
    find("import").addEventListener("click", () => file.click());
    file.addEventListener("change", () => {
      if (file.files?.[0]) actions.importFile(file.files[0]);
      file.value = "";
    });
  }

  show(conversations: Conversation[], current: string): void {
    this.#conversations = conversations.toSorted((a, b) => b.updated - a.updated);
    this.#current = current;
    this.#draw();
  }

  #draw(): void {
    const wanted = this.#search.value.trim().toLowerCase();
    const has = (text: string) => text.toLowerCase().includes(wanted);
    const shown = this.#conversations.filter((c) => has(c.title) || c.messages.some((message) => has(message.text)));
    const groups = new Map<string, HTMLElement[]>();
    for (const conversation of shown) {
      const age = ageOf(conversation);
      groups.set(age, [...(groups.get(age) ?? []), this.#item(conversation)]);
    }
    const sections = Array.from(groups, ([age, items]) => h("section", {}, h("h2", {}, age), h("ul", {}, ...items)));
    const nothing = h("p", { class: "nothing" }, wanted ? "Nothing found." : "No conversations yet.");
    this.#list.replaceChildren(...(sections.length > 0 ? sections : [nothing]));
  }

  #item({ id, title }: Conversation): HTMLElement {
    const name = title || "Untitled";
    const current = id === this.#current;
    return h(
      "li",
      { class: current ? "current" : "" },
      h(
        "button",
        {
          type: "button",
          class: "open",
          dir: "auto",
          "aria-current": current && "page",
          title: name,
          onclick: () => this.actions.open(id),
        },
        name,
      ),
      iconButton("trash", `Delete ${name}`, () => this.actions.remove(id)),
    );
  }
}
