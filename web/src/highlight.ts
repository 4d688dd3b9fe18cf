// Colours code a little, whatever the language: comments, strings, numbers, and words that most languages share.

import { h } from "./dom.ts";

const KEYWORDS = new Set(
  (
    "abstract and as async await auto begin bool break case catch char class const constexpr continue def " +
    "default defer del delete do double elif else end enum except export extends extern false final " +
    "finally float fn for from func function go goto if impl implements import in include int interface " +
    "is lambda let local long loop match mod module mut namespace new nil none not null nullptr of or " +
    "override package pass private protected pub public raise return self short signed sizeof static " +
    "string struct super switch template then this throw trait true try type typedef typename undefined " +
    "union unless unsigned until use using var virtual void volatile when where while with yield"
  ).split(" "),
);
const HASH_COMMENTS = new Set("py python sh bash shell yaml yml toml rb ruby r make cmake perl".split(" "));
const DASH_COMMENTS = new Set(["sql", "lua", "haskell", "hs"]);
const LONGEST = 50_000; // more is left plain, so that a huge answer stays quick

export function highlight(code: HTMLElement, language: string): void {
  const text = code.textContent ?? "";
  if (text.length > LONGEST || language === "text") return;
  const comment = HASH_COMMENTS.has(language)
    ? "#[^\\n]*"
    : DASH_COMMENTS.has(language)
      ? "--[^\\n]*"
      : "\\/\\/[^\\n]*|\\/\\*[\\s\\S]*?(?:\\*\\/|$)";
  const string = `"(?:\\\\.|[^"\\\\\\n])*"?|'(?:\\\\.|[^'\\\\\\n])*'?|\`(?:\\\\.|[^\`\\\\])*\`?`;
  const tokens = new RegExp(`(${comment})|(${string})|(\\b\\d[\\w.]*)|([A-Za-z_]\\w*)`, "g");
  const parts: (Node | string)[] = [];
  let last = 0;
  for (const match of text.matchAll(tokens)) {
    const kind = match[1]
      ? "comment"
      : match[2]
        ? "string"
        : match[3]
          ? "number"
          : KEYWORDS.has(match[4]!.toLowerCase())
            ? "keyword"
            : "";
    if (!kind) continue;
    parts.push(text.slice(last, match.index), h("span", { class: `code-${kind}` }, match[0]));
    last = match.index + match[0].length;
  }
  parts.push(text.slice(last));
  code.replaceChildren(...parts);
}
