// Which parts of a model live in which pool: a row for each pool, each part as wide as its bytes.

import type { Live } from "./api.ts";
import { h } from "./dom.ts";

type Entry = Live["memory_map"][number];

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

// The parts of a row: the layers are one, however many there are, so that its width is to scale.
interface Part {
  name: string;
  className: string;
  bytes: number;
  layers: number[]; // the bytes of each
}

const NAMES: Record<string, string> = { embed: "Embedding", output: "Output", cache: "Cache" };
const TINY = 0.015; // of the row: a part that is less is drawn wider, and marked

export function memoryMap(live: Live): HTMLElement[] {
  const models = Map.groupBy(live.memory_map, (entry) => entry.model);
  const kinds = new Map(live.devices.map((device) => [device.name, device.kind]));
  return Array.from(models, ([model, entries]) => {
    const pools = Map.groupBy(entries, (entry) => `${entry.device} · ${entry.pool}`);
    const rows = Array.from(pools, ([name, held]) => ({ name, held, bytes: sum(held.map(({ bytes }) => bytes)) }));
    const widest = Math.max(1, ...rows.map(({ bytes }) => bytes));
    const drawn = rows.map((row) => poolRow({ ...row, kind: kinds.get(row.held[0]!.device) ?? "cpu", widest }));
    return h("div", { class: "map" }, h("h3", {}, model), ...drawn);
  });
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function bytesByLayer(entries: Entry[]): Map<string, number> {
  const bytes = new Map<string, number>();
  for (const { layer, bytes: more } of entries) bytes.set(String(layer), (bytes.get(String(layer)) ?? 0) + more);
  return bytes;
}

function partsOf(held: Entry[]): Part[] {
  const bytes = bytesByLayer(held);
  const names = [...bytes.keys()].sort((a, b) => rankOf(a) - rankOf(b));
  const numbered = names.filter((name) => Number.isInteger(Number(name)));
  const one = (name: string): Part => {
    return { name: NAMES[name] ?? name, className: name, bytes: bytes.get(name)!, layers: [] };
  };
  const rest = names
    .filter((name) => !numbered.includes(name))
    .map((name) => ({ rank: rankOf(name), part: one(name) }));
  if (numbered.length > 0) {
    const layers = numbered.map((name) => bytes.get(name)!);
    const words = describeLayers(numbered);
    const name = words[0]!.toUpperCase() + words.slice(1);
    rest.push({ rank: 0, part: { name, className: "layers", bytes: sum(layers), layers } });
  }
  return rest.sort((a, b) => a.rank - b.rank).map(({ part }) => part);
}

function poolRow(row: { name: string; kind: string; held: Entry[]; bytes: number; widest: number }): HTMLElement {
  const parts = partsOf(row.held);
  const isTiny = (part: Part) => part.bytes < row.widest * TINY;
  const words = parts.map(({ name, bytes }) => `${name} ${formatBytes(bytes)}`).join(", ");
  const label = `${row.name}: ${formatBytes(row.bytes)}, ${words}`;
  const picture = h(
    "div",
    { class: "map-bar", role: "img", "aria-label": label },
    ...parts.map((part) => segment(part, isTiny(part))),
  );
  picture.style.width = `${(row.bytes / row.widest) * 100}%`;
  return h(
    "div",
    { class: `map-row kind-${row.kind}` },
    h("div", { class: "map-label" }, h("span", {}, row.name), h("span", {}, formatBytes(row.bytes))),
    picture,
    h("ul", { class: "map-legend" }, ...parts.map((part) => legendItem(part, row.bytes, isTiny(part)))),
    parts.some(isTiny) &&
      h("p", { class: "map-note" }, "To scale, but for striped parts: they would be too narrow to see."),
  );
}

function segment(part: Part, isTiny: boolean): HTMLElement {
  const title = `${part.name}: ${formatBytes(part.bytes)}`;
  const element = h("div", { class: `part ${part.className} ${isTiny ? "tiny" : ""}`, title });
  element.style.flexGrow = String(part.bytes);
  for (const bytes of isTiny ? [] : part.layers) {
    const layer = h("i");
    layer.style.flexGrow = String(bytes);
    element.append(layer);
  }
  return element;
}

function legendItem({ name, className, bytes, layers }: Part, total: number, isTiny: boolean): HTMLElement {
  const same = layers.length > 1 && Math.max(...layers) - Math.min(...layers) < Math.max(...layers) / 100;
  const each =
    layers.length > 1 ? `${layers.length} × ${same ? "" : "about "}${formatBytes(bytes / layers.length)}` : "";
  const percent = (bytes / total) * 100;
  return h(
    "li",
    {},
    h("i", { class: `part ${className} ${isTiny ? "tiny" : ""}`, "aria-hidden": "true" }),
    h("span", { class: "grow" }, name, each && h("small", {}, ` ${each}`)),
    h("span", {}, formatBytes(bytes)),
    h("span", { class: "share" }, percent > 0 && percent < 1 ? "<1 %" : `${Math.round(percent)} %`),
  );
}
