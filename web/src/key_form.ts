// Asks for the API key of a server that wants one, in place of the message field.

import { find } from "./dom.ts";
import { preferences, setPreferences } from "./preferences.ts";

export class KeyForm {
  #form = find<HTMLFormElement>("key-form");
  #key = find<HTMLInputElement>("key");
  #keep = find<HTMLInputElement>("key-keep");
  #wrong = find("key-wrong");

  constructor(changed: () => void) {
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      setPreferences({ key: this.#key.value.trim(), keepsKey: this.#keep.checked });
      changed();
    });
  }

  // The server has refused: the key that was sent, or that none was.
  ask(): void {
    const isWrong = preferences().key !== "";
    this.#wrong.hidden = !isWrong;
    this.#key.setAttribute("aria-invalid", String(isWrong));
    this.#key.value = preferences().key;
    this.#keep.checked = preferences().keepsKey;
    this.#show(true);
    this.#key.select();
    this.#key.focus();
  }

  hide(): void {
    this.#show(false);
  }

  #show(asks: boolean): void {
    this.#form.hidden = !asks;
    find("composer").hidden = asks;
  }
}
