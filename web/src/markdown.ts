// Markdown to elements, sanitised, and redrawn only where a growing text has changed.

import DOMPurify from "dompurify";
import { marked, type Token } from "marked";
import { copyButton, h } from "./dom.ts";
import { highlight } from "./highlight.ts";

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
    { class: "code-frame" },
    h(
      "div",
      { class: "code-head" },
      h("span", {}, language || "code"),
      copyButton(() => text),
    ),
  );
  pre.replaceWith(frame);
  frame.append(pre);
}

export class MarkdownView {
  readonly element = h("div", { class: "prose" });
  #drawn: string[] = []; // the source of each block, one child each

  // While the text grows, blocks whose source is the same stay: selections in them too.
  update(text: string, ended: boolean): void {
    const tokens = marked.lexer(text).filter((token) => token.type !== "space" && token.type !== "def");
    let same = 0;
    if (!ended) while (same < tokens.length && tokens[same]!.raw === this.#drawn[same]) same++;
    while (this.element.children.length > same) this.element.lastElementChild!.remove();
    for (const token of tokens.slice(same)) this.element.append(h("div", { class: "block" }, renderBlock(token)));
    this.#drawn = tokens.map((token) => token.raw);
  }
}
