// The models of the server, and which of them answers. Where there is none to pick, the picker says why.

import { listModels, type Model } from "./api.ts";
import { find, h } from "./dom.ts";

export class ModelPicker {
  #select = find<HTMLSelectElement>("model");
  #models: Model[] = [];
  #loaded = false;

  constructor(changed: (name: string) => void) {
    this.say("Connecting…");
    this.#select.addEventListener("change", () => changed(this.#select.value));
  }

  // Empty: the server's choice.
  get chosen(): string {
    return this.#select.value;
  }

  get model(): Model | undefined {
    return this.#models.find(({ id }) => id === this.chosen);
  }

  get isEmpty(): boolean {
    return this.#models.length === 0;
  }

  // The server was asked, and has none.
  get hasNone(): boolean {
    return this.#loaded && this.isEmpty;
  }

  // False: the server does not have it.
  choose(name: string): boolean {
    const has = this.#models.some(({ id }) => id === name);
    if (has) this.#select.value = name;
    return has;
  }

  async load(): Promise<void> {
    const { chosen } = this;
    const models = await listModels();
    if (models.length === 0) this.say("No models");
    this.#loaded = true;
    this.#models = models;
    if (this.isEmpty) return;
    this.#select.disabled = false;
    this.#select.replaceChildren(...this.#models.map(option));
    this.choose(chosen);
  }

  // In place of models.
  say(text: string): void {
    this.#models = [];
    this.#loaded = false;
    this.#select.disabled = true;
    this.#select.replaceChildren(h("option", { value: "" }, text));
  }
}

function option({ id, state }: Model): HTMLElement {
  return h("option", { value: id }, state === "failed" ? `${id} (cannot be loaded)` : id);
}
