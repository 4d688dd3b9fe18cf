// A line over the last two minutes, as SVG.

import { h, svg } from "./dom.ts";

const SAMPLES = 120;
const WIDTH = 240;
const HEIGHT = 56;

export class Chart {
  readonly element: HTMLElement;
  #series: { values: number[]; area: SVGPathElement; line: SVGPathElement }[];
  #top = h("span", { class: "chart-top" });
  #picture: SVGSVGElement;

  // One line for each class name; the first lies in front.
  constructor(
    private name: string,
    classes: string[],
  ) {
    this.#series = classes.map((className) => ({
      values: [],
      area: svg("path", { class: `chart-area ${className}` }),
      line: svg("path", { class: `chart-line ${className}` }),
    }));
    const paths = this.#series.toReversed().flatMap(({ area, line }) => [area, line]);
    this.#picture = svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
      ...paths,
    );
    this.element = h("div", { class: "chart" }, this.#picture, this.#top);
  }

  push(values: number[]): void {
    this.#series.forEach((series, i) => {
      series.values.push(values[i] ?? 0);
      if (series.values.length > SAMPLES) series.values.shift();
    });
    const highest = niceTop(Math.max(...this.#series.flatMap((series) => series.values)));
    for (const series of this.#series) draw(series, highest);
    this.#top.textContent = String(highest);
    this.#picture.setAttribute("aria-label", `${this.name}, the last two minutes; now ${Math.round(values[0] ?? 0)}`);
  }
}

function draw(
  { values, area, line }: { values: number[]; area: SVGPathElement; line: SVGPathElement },
  highest: number,
): void {
  const step = WIDTH / (SAMPLES - 1);
  const start = WIDTH - (values.length - 1) * step;
  const points = values.map(
    (value, i) => `${(start + i * step).toFixed(1)} ${(HEIGHT - 1 - (value / highest) * (HEIGHT - 4)).toFixed(1)}`,
  );
  line.setAttribute("d", `M${points.join("L")}`);
  area.setAttribute("d", `M${points.join("L")}L${WIDTH} ${HEIGHT}L${start.toFixed(1)} ${HEIGHT}Z`);
}

// The next of 10, 20, 50, 100, 200, ...
function niceTop(value: number): number {
  for (let power = 10; ; power *= 10) {
    for (const factor of [1, 2, 5]) {
      if (value <= power * factor || power > 1e9) return power * factor;
    }
  }
}
