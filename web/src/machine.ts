// The live view of the machine: what the server says of itself once a second while this is open.

import { ApiError, type Live, streamLive } from "./api.ts";
import { Chart } from "./chart.ts";
import { bar, find, h } from "./dom.ts";
import { formatBytes, memoryMap } from "./memory_map.ts";
import { problemOf, sentenceOf } from "./problems.ts";

const AGAIN_MS = 2000;
const CELLS = 96; // of the picture of the cache

export class Machine {
  #body = find("machine-body");
  #chart = new Chart("Tokens per second", ["tokens", "prompt-tokens"]);
  #rate = h("strong", {}, "0");
  #promptRate = h("strong", {}, "0");
  #facts = h("dl", { class: "facts" });
  #devices = h("section", { "aria-label": "Devices" });
  #models = h("section", { "aria-label": "Models" });
  #map = h("section", { "aria-label": "Memory map" });
  #drawnMap = "";
  #notice = h("p", { class: "notice", role: "status" }, "Connecting…");
  #listening: AbortController | null = null;

  constructor(private failed: (error: unknown) => void) {
    const legend = h(
      "p",
      { class: "rates" },
      h("span", { class: "tokens" }, this.#rate, " tokens/s"),
      h("span", { class: "prompt-tokens" }, this.#promptRate, " prompt tokens/s"),
    );
    this.#body.replaceChildren(
      this.#notice,
      h("section", { "aria-label": "Speed" }, legend, this.#chart.element),
      this.#facts,
      this.#devices,
      this.#models,
      this.#map,
    );
    document.addEventListener("visibilitychange", () => this.#tune());
  }

  set open(open: boolean) {
    find("machine").hidden = !open;
    this.#tune();
  }

  // Nothing is asked for while nobody looks.
  #tune(): void {
    const wanted = !find("machine").hidden && !document.hidden;
    if (wanted && !this.#listening) {
      this.#listening = new AbortController();
      void this.#listen(this.#listening.signal);
    } else if (!wanted) {
      this.#listening?.abort();
      this.#listening = null;
    }
  }

  // Listens again, with another key perhaps.
  restart(): void {
    this.#listening?.abort();
    this.#listening = null;
    this.#tune();
  }

  async #listen(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        for await (const live of streamLive(signal)) this.#draw(live);
        this.#say("The server has ended the live view.");
      } catch (error) {
        if (signal.aborted) return;
        const status = error instanceof ApiError ? error.status : undefined;
        const sentence = sentenceOf(status === 0 ? "unreachable" : problemOf(error));
        this.#say(status === 404 ? "This server has no live view." : sentence);
        this.failed(error);
        if (status !== undefined && status >= 400 && status < 500) return; // asking again helps nobody
      }
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }

  #say(text: string): void {
    this.#notice.textContent = text;
    this.#notice.hidden = text === "";
  }

  #draw(live: Live): void {
    this.#say("");
    this.#chart.push([live.tokens_per_second, live.prompt_tokens_per_second]);
    this.#rate.textContent = formatRate(live.tokens_per_second);
    this.#promptRate.textContent = formatRate(live.prompt_tokens_per_second);
    const { p50, p95 } = live.time_to_first_token;
    this.#facts.replaceChildren(
      fact("First token", formatSeconds(p50), `95 % within ${formatSeconds(p95)}`),
      fact("Answering", String(live.requests.running), "requests"),
      fact("Waiting", String(live.requests.waiting), "in the queue"),
    );
    this.#devices.replaceChildren(h("h2", {}, "Devices"), ...live.devices.map(drawDevice));
    this.#models.replaceChildren(h("h2", {}, "Models"), ...live.models.map(drawModel));
    this.#drawMap(live);
  }

  // It changes when a model comes or goes: between, pointers may rest on it.
  #drawMap(live: Live): void {
    const drawn = JSON.stringify(live.memory_map);
    if (drawn === this.#drawnMap) return;
    this.#drawnMap = drawn;
    const maps = memoryMap(live);
    this.#map.replaceChildren(
      h("h2", {}, "Memory map"),
      ...(maps.length > 0 ? maps : [h("p", { class: "nothing" }, "No model is loaded.")]),
    );
  }
}

function formatRate(value: number): string {
  return value > 0 && value < 10 ? value.toFixed(1) : String(Math.round(value));
}

function formatSeconds(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return "–";
  return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(1)} s`;
}

function fact(name: string, value: string, note: string): HTMLElement {
  return h("div", {}, h("dt", {}, name), h("dd", {}, h("strong", {}, value), h("small", {}, note)));
}

function drawDevice(device: Live["devices"][number]): HTMLElement {
  const percent = `${Math.round(device.utilisation * 100)} %`;
  const pools = device.pools.map((pool) =>
    h(
      "div",
      { class: "pool" },
      h("span", {}, pool.name),
      bar(pool.bytes > 0 ? pool.used / pool.bytes : 0, `${pool.name} used`, "thin"),
      h("span", {}, `${formatBytes(pool.used)} of ${formatBytes(pool.bytes)}`),
    ),
  );
  return h(
    "div",
    { class: `device kind-${device.kind}` },
    h(
      "div",
      { class: "row" },
      h("span", { class: "kind" }, device.kind.toUpperCase()),
      h("span", { class: "name", title: device.name }, device.name),
      h("span", { class: "number" }, percent),
    ),
    bar(device.utilisation, `${device.name} busy`),
    ...pools,
  );
}

function drawModel(model: Live["models"][number]): HTMLElement {
  const state = model.state === "loading" ? `loading, ${Math.round(model.progress * 100)} %` : model.state;
  const head = h(
    "div",
    { class: "row" },
    h("span", { class: "name", title: model.name }, model.name),
    h("span", { class: `state ${model.state}` }, state),
  );
  if (model.state === "loading") return h("div", { class: "model" }, head, bar(model.progress, `${model.name} loaded`));
  if (model.state !== "ready") return h("div", { class: "model" }, head);
  const held = Math.round(model.cache_usage * model.cache_blocks);
  const cached = `${Math.round(model.cached_share * 100)} % of prompts cached`;
  const words = `${held} of ${model.cache_blocks} cache blocks · ${cached}`;
  return h("div", { class: "model" }, head, cells(model.cache_usage), h("p", { class: "small" }, words));
}

// The cache as a field of cells, filled as far as it is held; the words beside it say the same.
function cells(share: number): HTMLElement {
  const full = share > 0 ? Math.max(1, Math.round(share * CELLS)) : 0;
  return h(
    "div",
    { class: "cells", "aria-hidden": "true" },
    ...Array.from({ length: CELLS }, (_, i) => h("i", { class: i < full ? "full" : "" })),
  );
}
