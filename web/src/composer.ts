// Where a message is written: Enter sends, Shift+Enter breaks the line, Escape stops an answer.

import { find, icon } from "./dom.ts";

export interface ComposerActions {
  send(text: string): void;
  stop(): void;
  editLast(): void;
}

export class Composer {
  #form = find<HTMLFormElement>("composer");
  #area = find<HTMLTextAreaElement>("prompt");
  #button = find<HTMLButtonElement>("send");
  #busy = false;

  constructor(private actions: ComposerActions) {
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#area.addEventListener("keydown", (event) => this.#key(event));
    this.#area.addEventListener("input", () => this.#draw());
    document.addEventListener("keydown", (event) => {
      if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
      const typing = event.target instanceof HTMLElement && event.target.matches("input, textarea, select");
      if (event.key === "Escape" && this.#busy) actions.stop();
      else if (event.key === "/" && !typing) {
        event.preventDefault();
        this.focus();
      }
    });
    this.#draw();
  }

  setBusy(busy: boolean): void {
    this.#busy = busy;
    this.#draw();
  }

  focus(): void {
    this.#area.focus();
  }

  clear(): void {
    this.#area.value = "";
    this.#draw();
  }

  #submit(): void {
    const text = this.#area.value.trim();
    if (this.#busy) this.actions.stop();
    else if (text !== "") {
      this.clear();
      this.actions.send(text);
    }
  }

  #key(event: KeyboardEvent): void {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (!this.#busy) this.#submit(); // a hasty Enter must not stop the answer
    } else if (event.key === "ArrowUp" && this.#area.value === "" && !this.#busy) {
      event.preventDefault();
      this.actions.editLast();
    }
  }

  #draw(): void {
    const label = this.#busy ? "Stop" : "Send";
    if (this.#button.getAttribute("aria-label") !== label) {
      this.#button.setAttribute("aria-label", label);
      this.#button.title = this.#busy ? "Stop (Escape)" : "Send (Enter)";
      this.#button.replaceChildren(icon(this.#busy ? "stop" : "send"));
    }
    this.#button.disabled = !this.#busy && this.#area.value.trim() === "";
    this.#area.style.height = "auto"; // grows with what is written
    this.#area.style.height = `${this.#area.scrollHeight}px`;
  }
}
