// Whether the server is there. Once something finds that it is not, /health is asked until it answers again.

import { announce } from "./announce.ts";
import { askHealth, type Health } from "./api.ts";
import { find } from "./dom.ts";

const FIRST_MS = 1000;
const LONGEST_MS = 10_000;

export class Connection {
  #notice = find("connection");
  #words = find("connection-words");
  #looking = false;
  #waitMs = FIRST_MS;
  #timer = 0;
  #foundAt = 0; // Unix milliseconds

  constructor(private back: () => void) {
    find("connection-now").addEventListener("click", () => this.#lookNow());
    addEventListener("online", () => this.#lookNow());
  }

  // A request found nobody, or somebody who is not ready.
  missed(): void {
    if (this.#looking) return;
    this.#looking = true;
    this.#waitMs = FIRST_MS;
    // Where /health answers and the rest does not, this must not go round in haste.
    const rest = Math.max(0, this.#foundAt + FIRST_MS - Date.now());
    this.#timer = window.setTimeout(() => void this.#look(), rest);
  }

  #lookNow(): void {
    if (!this.#looking) return;
    clearTimeout(this.#timer);
    this.#waitMs = FIRST_MS;
    void this.#look();
  }

  async #look(): Promise<void> {
    const health = await askHealth();
    if (health && health.status !== "loading" && health.status !== "draining") {
      const wasShown = !this.#notice.hidden;
      this.#looking = false;
      this.#foundAt = Date.now();
      this.#notice.hidden = true;
      if (wasShown) announce("The server is there again");
      this.back();
      return;
    }
    const words = wordsFor(health);
    if (this.#words.textContent !== words) this.#words.textContent = words;
    this.#notice.hidden = false;
    this.#timer = window.setTimeout(() => void this.#look(), this.#waitMs);
    this.#waitMs = health ? FIRST_MS : Math.min(LONGEST_MS, this.#waitMs * 1.5);
  }
}

function wordsFor(health: Health | null): string {
  if (health?.status === "loading")
    return `The server is starting: ${Math.round((health.progress ?? 0) * 100)} % is loaded.`;
  if (health) return "The server is stopping.";
  return "The server cannot be reached. This page looks for it and goes on by itself.";
}
