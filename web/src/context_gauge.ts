// How much of what the model can read at once the conversation takes.

import { type Conversation, tokensUsed } from "./conversation.ts";
import { find } from "./dom.ts";

const NEARLY = 0.85;

export class ContextGauge {
  #place = find("context");
  #bar = find("context-bar");
  #fill = find("context-fill");
  #words = find("context-words");
  #room = find("make-room");

  constructor(makeRoom: () => void) {
    this.#room.addEventListener("click", makeRoom);
  }

  show(conversation: Conversation, context: number | undefined, canMakeRoom: boolean): void {
    const used = tokensUsed(conversation);
    this.#place.hidden = used === null || !context;
    if (used === null || !context) return;
    const share = Math.min(1, used / context);
    const percent = Math.round(share * 100);
    this.#fill.style.width = `${percent}%`;
    this.#bar.setAttribute("aria-valuenow", String(percent));
    this.#bar.setAttribute("aria-valuetext", `${used} of ${context} tokens`);
    this.#place.classList.toggle("nearly", share >= NEARLY);
    this.#words.textContent = `${used.toLocaleString("en")} of ${context.toLocaleString("en")} tokens of context`;
    this.#room.hidden = share < NEARLY || share >= 1 || !canMakeRoom; // at the end the answer says it
  }
}
