// What a screen reader is told, politely: an answer sentence by sentence, not token by token.

import { find } from "./dom.ts";

export function announce(text: string): void {
  const region = find("announcer");
  const line = document.createElement("p");
  line.textContent = text;
  region.append(line);
  while (region.childElementCount > 20) region.firstElementChild?.remove();
}

export class SentenceReader {
  // `said`: so many letters need not be read, an answer that goes on had them before.
  constructor(private said = 0) {}

  // Says the sentences that are complete; at the end, also what is left.
  read(text: string, ended: boolean): void {
    const fresh = text.slice(this.said);
    const end = ended
      ? fresh.length
      : Math.max(fresh.lastIndexOf(". "), fresh.lastIndexOf("\n"), fresh.lastIndexOf("? ")) + 1;
    if (end <= 0) return;
    this.said += end;
    const sentence = fresh.slice(0, end).trim();
    if (sentence) announce(sentence);
  }
}
