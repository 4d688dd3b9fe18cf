// The settings of the conversation that is shown, and of the page.

import type { Model } from "./api.ts";
import type { Conversation, Sampling } from "./conversation.ts";
import { find } from "./dom.ts";
import { applyLook, preferences, setPreferences, type Theme } from "./preferences.ts";
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

  open(conversation: Conversation, model: Model | undefined): void {
    for (const name of SAMPLING_FIELDS) this.#field(name).placeholder = placeholderOf(name, model);
    this.#field("title").value = conversation.title;
    this.#field("system").value = conversation.system;
    for (const name of SAMPLING_FIELDS) this.#field(name).value = String(conversation.sampling[name] ?? "");
    this.#field("theme").value = preferences().theme;
    this.#field("key").value = preferences().key;
    this.#field("keep").checked = preferences().keepsKey;
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
    const keepsKey = this.#field("keep").checked;
    setPreferences({ theme: this.#field("theme").value as Theme, key, keepsKey });
    applyLook();
    this.changed(
      { title: this.#field("title").value.trim(), system: this.#field("system").value.trim(), sampling },
      keyChanged,
    );
  }

  #field(name: string): HTMLInputElement {
    return this.#form.elements.namedItem(name) as HTMLInputElement;
  }
}

// What a field that is left empty comes to.
function placeholderOf(name: keyof Sampling, model: Model | undefined): string {
  if (name === "seed") return "random";
  if (name === "max_tokens") return model?.max_model_len ? `up to ${model.max_model_len}` : "no limit";
  const value = model?.default_sampling?.[name];
  if (value === undefined) return "the server’s";
  return name === "top_k" && value === 0 ? "0 (all)" : String(value);
}
