// The models of the server's machine: what is there, what fits it, and what can be fetched.

import { type Catalog, listLocal, listModels, type LocalModel, type Model, readCatalog } from "./api.ts";
import { find, h } from "./dom.ts";
import { problemOf, sentenceOf } from "./problems.ts";
import { formatGigabytes, Pull } from "./pull.ts";

export interface ModelsActions {
  use(name: string): void;
  changed(): void; // there is another model
  askForKey(): void;
}

export class ModelsDialog {
  #dialog = find<HTMLDialogElement>("models");
  #notice = find("models-notice");
  #name = find<HTMLInputElement>("pull-name");
  #pulls: Pull[] = [];

  constructor(private actions: ModelsActions) {
    find("open-models").addEventListener("click", () => this.open());
    find("models-close").addEventListener("click", () => this.#dialog.close());
    find("pull-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#pull(this.#name.value.trim());
      this.#name.value = "";
    });
    this.#dialog.addEventListener("click", (event) => {
      if (event.target === this.#dialog) this.#dialog.close(); // beside it
    });
  }

  open(): void {
    this.#dialog.showModal();
    void this.#load();
  }

  async #load(): Promise<void> {
    try {
      const [models, local, catalog] = await Promise.all([listModels(), listLocal(), readCatalog()]);
      this.#say(catalog.can_pull ? "" : "This server keeps to the models that it was started with.");
      this.#draw(models, local, catalog);
    } catch (error) {
      this.#say(sentenceOf(problemOf(error)));
      if (problemOf(error) !== "key") return;
      this.#dialog.close();
      this.actions.askForKey();
    }
  }

  #say(text: string): void {
    this.#notice.textContent = text;
    this.#notice.hidden = text === "";
  }

  #draw(models: Model[], local: LocalModel[], catalog: Catalog): void {
    const stateOf = (name: string) => models.find(({ id }) => id === name)?.state;
    find("models-here").replaceChildren(
      ...local.map((model) => {
        const { family, parameter_size: parameters, quantization_level: type } = model.details;
        const about = [family, parameters, type, wordOf(stateOf(model.name))].filter(Boolean).join(" · ");
        const use = this.#button("Use", model.name, () => this.#use(model.name));
        return row(model.name, about, model.size, model.size <= catalog.largest_bytes, use);
      }),
    );
    find("models-offered-part").hidden = !catalog.can_pull;
    find("models-offered").replaceChildren(
      ...catalog.models.map(({ name, about, size_gb: size, fits, here }) => {
        const action = here
          ? this.#button("Use", name, () => this.#use(here))
          : this.#button("Fetch", name, () => this.#pull(name));
        return row(name, here ? `${about} · is here` : about, size * 1e9, fits, action);
      }),
    );
  }

  #button(label: string, name: string, onclick: () => void): HTMLButtonElement {
    return h("button", { type: "button", class: "quiet", "aria-label": `${label} ${name}`, onclick }, label);
  }

  #use(name: string): void {
    this.#dialog.close();
    this.actions.use(name);
  }

  #pull(name: string): void {
    if (name === "" || this.#pulls.some((pull) => pull.name === name)) return;
    const pull: Pull = new Pull(name, {
      done: () => {
        this.actions.changed();
        if (this.#dialog.open) void this.#load().then(() => this.#say(`${name} is here.`));
      },
      closed: () => (this.#pulls = this.#pulls.filter((other) => other !== pull)),
      askForKey: () => {
        this.#dialog.close();
        this.actions.askForKey();
      },
    });
    this.#pulls.push(pull);
    find("pulls").append(pull.element);
    pull.element.scrollIntoView({ block: "nearest" });
  }
}

function wordOf(state: string | undefined): string {
  if (state === "ready") return "loaded";
  return state === "loading" || state === "failed" ? { loading: "loading", failed: "cannot be loaded" }[state] : "";
}

function row(name: string, about: string, bytes: number, fits: boolean, action: HTMLElement): HTMLElement {
  return h(
    "li",
    { class: fits ? "" : "too-large" },
    h("span", { class: "name" }, name, h("small", {}, about)),
    h("span", { class: "fit" }, formatGigabytes(bytes), h("small", {}, fits ? "fits" : "too large")),
    action,
  );
}
