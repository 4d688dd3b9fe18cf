// A model on its way to the server's machine: how far it is, and its end.

import { ApiError, pullModel, type PullLine } from "./api.ts";
import { bar, h } from "./dom.ts";
import { detailsOf, problemOf, sentenceOf } from "./problems.ts";

const RATE_OVER_MS = 5000; // what came in the last seconds tells what is left

export interface PullActions {
  done(): void;
  closed(): void;
  askForKey(): void;
}

export class Pull {
  readonly element = h("div", { class: "pull", role: "group" });
  #files = new Map<string, { total: number; completed: number }>();
  #samples: { time: number; completed: number }[] = [];
  #stop = new AbortController();

  constructor(
    readonly name: string,
    private actions: PullActions,
  ) {
    this.element.setAttribute("aria-label", `Fetching ${name}`);
    void this.#run();
  }

  async #run(): Promise<void> {
    this.#draw("Asking for it…");
    try {
      for await (const line of pullModel(this.name, this.#stop.signal)) this.#take(line);
      this.#close();
      this.actions.done();
    } catch (error) {
      if (this.#stop.signal.aborted) this.#close();
      else this.#fail(error);
    }
  }

  #take({ status, digest, total, completed }: PullLine): void {
    if (digest === undefined || !total) return this.#draw(status?.startsWith("verifying") ? "Checking…" : "");
    this.#files.set(digest, { total, completed: completed ?? 0 });
    this.#samples.push({ time: performance.now(), completed: this.#sum("completed") });
    while (this.#samples.at(-1)!.time - this.#samples[0]!.time > RATE_OVER_MS) this.#samples.shift();
    this.#draw("");
  }

  #sum(what: "total" | "completed"): number {
    return [...this.#files.values()].reduce((sum, file) => sum + file[what], 0);
  }

  // "1.2 of 2.5 GB, 45 MB/s, 29 s left"
  #progress(): string {
    const [total, completed] = [this.#sum("total"), this.#sum("completed")];
    if (total === 0) return "Asking for it…";
    const [first, last] = [this.#samples[0]!, this.#samples.at(-1)!];
    const rate = ((last.completed - first.completed) / (last.time - first.time)) * 1000;
    const words = [`${formatGigabytes(completed)} of ${formatGigabytes(total)}`];
    if (rate > 0 && Number.isFinite(rate)) words.push(`${Math.round(rate / 1e6)} MB/s`, timeLeft((total - completed) / rate));
    return words.join(", ");
  }

  #draw(word: string): void {
    const total = this.#sum("total");
    const stop = this.element.querySelector("button") ?? this.#button("Stop", () => this.#stop.abort());
    const words = h("span", {}, h("strong", {}, this.name), ` ${word || this.#progress()}`);
    const share = total > 0 ? this.#sum("completed") / total : 0;
    if (stop.isConnected) {
      this.element.firstElementChild!.replaceWith(words); // the button keeps the focus
      this.element.lastElementChild!.replaceWith(bar(share, `${this.name} fetched`, "", "progressbar"));
    } else {
      this.element.replaceChildren(words, stop, bar(share, `${this.name} fetched`, "", "progressbar"));
    }
  }

  // The server's words are about the name that was typed here, or about its disk and its line: they are shown.
  #fail(error: unknown): void {
    const problem = problemOf(error);
    const isOfServer = error instanceof ApiError && error.status !== 0 && problem !== "key" && problem !== "forbidden";
    const why = isOfServer ? error.message : sentenceOf(problem);
    if (problem === "key") this.actions.askForKey();
    this.element.replaceChildren(
      h("strong", {}, `${this.name} could not be fetched`),
      this.#button("Dismiss", () => this.#close()),
      h("p", { class: "error", role: "alert", title: detailsOf(error) }, why),
    );
  }

  #button(label: string, onclick: () => void): HTMLButtonElement {
    return h("button", { type: "button", class: "quiet", onclick, "aria-label": `${label}: ${this.name}` }, label);
  }

  #close(): void {
    this.element.remove();
    this.actions.closed();
  }
}

function timeLeft(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s left`;
  return `${Math.ceil(seconds / 60)} min left`;
}

// As a file is called by its size elsewhere, too: in powers of ten.
export function formatGigabytes(bytes: number): string {
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(bytes < 1e8 ? 1 : 0)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}
