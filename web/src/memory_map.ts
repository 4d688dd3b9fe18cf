// Which layers of a model live in which pool: a row for each pool, a column for each layer, as high as its bytes.

import type { Live } from "./api.ts";
import { h, svg } from "./dom.ts";

type Entry = Live["memory_map"][number];

const HEIGHT = 40;
const COLUMN = 10;

export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit++;
  }
  return `${bytes >= 100 || unit === 0 ? Math.round(bytes) : bytes.toFixed(1)} ${units[unit]}`;
}

// embed, 0, 1, ..., output, cache
function rankOf(layer: string): number {
  const number = Number(layer);
  if (Number.isInteger(number)) return number;
  return layer === "embed" ? -1 : layer === "output" ? 1e6 : layer === "cache" ? 1e7 : 2e6;
}

// "embed, layers 0 to 11, cache"
export function describeLayers(layers: string[]): string {
  const numbers = layers.map(Number).filter(Number.isInteger);
  const runs: string[] = [];
  for (let i = 0; i < numbers.length;) {
    let end = i;
    while (numbers[end + 1] === numbers[end]! + 1) end++;
    runs.push(end > i ? `${numbers[i]} to ${numbers[end]}` : `${numbers[i]}`);
    i = end + 1;
  }
  const names = layers.filter((layer) => !Number.isInteger(Number(layer)));
  const text = runs.length > 0 ? [`layers ${runs.join(", ")}`] : [];
  return [...names.filter((name) => name === "embed"), ...text, ...names.filter((name) => name !== "embed")].join(", ");
}

export function memoryMap(live: Live): HTMLElement[] {
  const models = Map.groupBy(live.memory_map, (entry) => entry.model);
  const kinds = new Map(live.devices.map((device) => [device.name, device.kind]));
  return Array.from(models, ([model, entries]) => {
    const layers = [...new Set(entries.map((entry) => String(entry.layer)))].sort((a, b) => rankOf(a) - rankOf(b));
    // The cache may be many times a layer: it is cut off at the top, its size is in the words.
    const highest = Math.max(1, ...bytesByLayer(entries.filter(({ layer }) => layer !== "cache")).values());
    const pools = Map.groupBy(entries, (entry) => `${entry.device} · ${entry.pool}`);
    const rows = Array.from(pools, ([name, held]) =>
      poolRow({ name, kind: kinds.get(held[0]!.device) ?? "cpu", held, layers, highest }),
    );
    return h("div", { class: "map" }, h("h3", {}, model), ...rows);
  });
}

function bytesByLayer(entries: Entry[]): Map<string, number> {
  const bytes = new Map<string, number>();
  for (const { layer, bytes: more } of entries) bytes.set(String(layer), (bytes.get(String(layer)) ?? 0) + more);
  return bytes;
}

function poolRow(row: { name: string; kind: string; held: Entry[]; layers: string[]; highest: number }): HTMLElement {
  const bytes = bytesByLayer(row.held);
  const total = [...bytes.values()].reduce((sum, value) => sum + value, 0);
  const bars = row.layers.map((layer, i) => {
    const held = bytes.get(layer) ?? 0;
    const height = held === 0 ? 0 : Math.min(HEIGHT, Math.max(3, (held / row.highest) * HEIGHT));
    const title = svg("title", {}, `${layer}: ${formatBytes(held)}`);
    return svg(
      "rect",
      {
        x: i * COLUMN + 0.5,
        y: HEIGHT - height,
        width: COLUMN - 1,
        height,
        class: layer === "cache" ? "cache" : "",
      },
      title,
    );
  });
  const words = `${describeLayers(row.layers.filter((layer) => bytes.has(layer)))}`;
  const picture = svg(
    "svg",
    {
      viewBox: `0 0 ${row.layers.length * COLUMN} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${row.name}: ${words}, ${formatBytes(total)}`,
      class: `kind-${row.kind}`,
    },
    ...bars,
  );
  return h(
    "div",
    { class: "map-row" },
    h("div", { class: "map-label" }, h("span", {}, row.name), h("span", {}, formatBytes(total))),
    picture,
    h("div", { class: "map-words" }, words),
  );
}
