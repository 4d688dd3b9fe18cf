// Markdown to elements, sanitised, and redrawn only where a growing text has changed.

import DOMPurify from "dompurify";
import { marked, type Token } from "marked";
import { copyButton, h, iconButton } from "./dom.ts";
import { highlight } from "./highlight.ts";
import { applyLook, preferences, setPreferences } from "./preferences.ts";

const ALLOWED = {
  ALLOWED_TAGS:
    "a blockquote br code del em h1 h2 h3 h4 h5 h6 hr input li ol p pre strong table tbody td th thead tr ul".split(
      " ",
    ),
  ALLOWED_ATTR: ["align", "checked", "class", "disabled", "href", "start", "title", "type"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ADD_URI_SAFE_ATTR: ["align", "start", "type"], // no addresses
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true as const,
};

function escape(text: string): string {
  return text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
}

marked.use({
  gfm: true,
  breaks: true,
  renderer: {
    // HTML in an answer is shown, not obeyed; a picture would tell a stranger's server who reads it.
    html: ({ text }) => escape(text),
    image: ({ href, text }) => `<a href="${escape(href)}">${escape(text || href)}</a>`,
  },
});

function renderBlock(token: Token): DocumentFragment {
  const html = marked.parser([token]);
  const fragment = DOMPurify.sanitize(html, ALLOWED);
  fragment.querySelectorAll<HTMLAnchorElement>("a").forEach((link) => {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  });
  fragment.querySelectorAll("[class]").forEach((element) => {
    if (element.localName !== "code") element.removeAttribute("class");
  });
  fragment.querySelectorAll("table").forEach((table) => {
    const frame = h("div", { class: "table-frame", tabindex: 0, role: "region", "aria-label": "Table" });
    table.replaceWith(frame);
    frame.append(table);
  });
  fragment.querySelectorAll<HTMLElement>("pre > code").forEach(dressCode);
  return fragment;
}

function dressCode(code: HTMLElement): void {
  const language = /^language-([\w+#.-]+)/.exec(code.className)?.[1] ?? "";
  code.className = "";
  highlight(code, language.toLowerCase());
  const pre = code.parentElement as HTMLElement;
  pre.tabIndex = 0; // a keyboard can scroll it
  const text = code.textContent ?? "";
  const frame = h(
    "div",
    { class: "code-frame", dir: "ltr" },
    h(
      "div",
      { class: "code-head" },
      h("span", { class: "grow" }, language || "code"),
      wrapButton(),
      copyButton(() => text),
    ),
  );
  pre.replaceWith(frame);
  frame.append(pre);
}

// Breaks the lines of all code, here and later: whoever wants it once wants it again.
function wrapButton(): HTMLButtonElement {
  const button = iconButton("wrap", "Wrap lines", () => {
    setPreferences({ wrapsCode: !preferences().wrapsCode });
    applyLook();
    for (const other of document.querySelectorAll(".wrap")) mark(other);
  });
  const mark = (other: Element) => other.setAttribute("aria-pressed", String(preferences().wrapsCode));
  button.classList.add("wrap");
  mark(button);
  return button;
}

export class MarkdownView {
  readonly element = h("div", { class: "prose" });
  #drawn: string[] = []; // the source of each block, one child each
  #complete = ""; // the text that was drawn as ended

  // While the text grows, blocks whose source is the same stay: selections in them too.
  update(text: string, ended: boolean): void {
    if (ended && text === this.#complete) return;
    this.#complete = ended ? text : "";
    const tokens = marked.lexer(text).filter((token) => token.type !== "space" && token.type !== "def");
    let same = 0;
    if (!ended) while (same < tokens.length && tokens[same]!.raw === this.#drawn[same]) same++;
    while (this.element.children.length > same) this.element.lastElementChild!.remove();
    const blocks = tokens.slice(same).map((token) => h("div", { class: "block", dir: "auto" }, renderBlock(token)));
    this.element.append(...blocks);
    this.#drawn = tokens.map((token) => token.raw);
  }
}
