// The settings of the conversation that is shown, and of the page.

import type { Conversation, Sampling } from "./conversation.ts";
import { find } from "./dom.ts";
import { applyTheme, preferences, setPreferences, type Theme } from "./preferences.ts";
import { SAMPLING_FIELDS } from "./transfer.ts";

export class Settings {
  #dialog = find<HTMLDialogElement>("settings");
  #form = find<HTMLFormElement>("settings-form");

  constructor(
    private changed: (settings: Pick<Conversation, "title" | "system" | "sampling">, keyChanged: boolean) => void,
  ) {
    this.#form.addEventListener("submit", () => this.#save()); // method=dialog closes it
    find("settings-cancel").addEventListener("click", () => this.#dialog.close());
    find("settings-reset").addEventListener("click", () => {
      for (const name of ["system", ...SAMPLING_FIELDS]) this.#field(name).value = "";
    });
    this.#dialog.addEventListener("click", (event) => {
      if (event.target === this.#dialog) this.#dialog.close(); // beside it
    });
  }

  open(conversation: Conversation): void {
    this.#field("title").value = conversation.title;
    this.#field("system").value = conversation.system;
    for (const name of SAMPLING_FIELDS) this.#field(name).value = String(conversation.sampling[name] ?? "");
    this.#field("theme").value = preferences().theme;
    this.#field("key").value = preferences().key;
    this.#dialog.showModal();
  }

  #save(): void {
    const sampling: Sampling = {};
    for (const name of SAMPLING_FIELDS) {
      const { value } = this.#field(name);
      if (value !== "" && Number.isFinite(Number(value))) sampling[name] = Number(value);
    }
    const key = this.#field("key").value.trim();
    const keyChanged = key !== preferences().key;
    setPreferences({ theme: this.#field("theme").value as Theme, key });
    applyTheme();
    this.changed(
      { title: this.#field("title").value.trim(), system: this.#field("system").value.trim(), sampling },
      keyChanged,
    );
  }

  #field(name: string): HTMLInputElement {
    return this.#form.elements.namedItem(name) as HTMLInputElement;
  }
}
