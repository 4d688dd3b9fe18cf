// One line at the bottom that goes away by itself, with something to undo perhaps.

import { find, h, iconButton } from "./dom.ts";

const SHOWN_MS = 7000;
let timer = 0;

export function toast(text: string, action?: { label: string; run: () => void }): void {
  const place = find("toast");
  const hide = () => {
    clearTimeout(timer);
    place.replaceChildren();
  };
  hide();
  const run = () => {
    hide();
    action?.run();
  };
  place.append(
    h(
      "div",
      { class: "toast" },
      h("span", {}, text),
      action ? h("button", { type: "button", class: "quiet", onclick: run }, action.label) : null,
      iconButton("close", "Dismiss", hide),
    ),
  );
  timer = window.setTimeout(hide, SHOWN_MS);
}
