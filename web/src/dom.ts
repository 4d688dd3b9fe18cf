// Small helpers that make elements: no markup is ever parsed but for what markdown.ts has sanitised.

type Child = Node | string | null | false;
type Props = Record<string, unknown>;

function fill(element: Element, props: Props, children: Child[]): void {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== null && child !== false));
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, props, children);
  return element;
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(element, props, children);
  return element;
}

// The element of index.html with this id.
export function find<T extends HTMLElement = HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no #${id}`);
  return element as T;
}

const ICONS = {
  check: "M4 12.5l5 5L20 6.5",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h10v11H9zM5 15V4h10",
  down: "M12 5v14M6 13l6 6 6-6",
  left: "M14 6l-6 6 6 6",
  pencil: "M4 20l1-4L16.5 4.5l3 3L8 19z",
  retry: "M19 12a7 7 0 1 1-2.2-5.1M19 3.5V8h-4.5",
  right: "M10 6l6 6-6 6",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7.5 7.5h9v9h-9z",
  wrap: "M4 6h16M4 12h13a3.5 3.5 0 0 1 0 7h-4M15.5 16.5L13 19l2.5 2.5M4 19h4",
  trash: "M5 7h14M10 7V4.5h4V7M7 7l.8 12.5h8.4L17 7",
};
export type IconName = keyof typeof ICONS;

export function icon(name: IconName): SVGSVGElement {
  return svg("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
}

// Two rings, part of the page: it stays when the server does not.
export function logo(): SVGSVGElement {
  return svg(
    "svg",
    { viewBox: "0 0 32 32", class: "logo", "aria-hidden": "true" },
    svg("circle", { cx: 11.5, cy: 16, r: 8.5 }),
    svg("circle", { cx: 20.5, cy: 16, r: 8.5, class: "front" }),
  );
}

export function iconButton(name: IconName, label: string, onclick: () => void, className = ""): HTMLButtonElement {
  return h(
    "button",
    { type: "button", class: `icon-button ${className}`, "aria-label": label, title: label, onclick },
    icon(name),
  );
}

// How full something is; a progress is one that fills.
export function bar(share: number, label: string, className = "", role = "meter"): HTMLElement {
  const percent = Math.round(Math.min(1, Math.max(0, share)) * 100);
  const fill = h("i");
  fill.style.width = `${percent}%`;
  return h(
    "div",
    {
      class: `bar ${className}`,
      role,
      "aria-label": label,
      "aria-valuemin": 0,
      "aria-valuemax": 100,
      "aria-valuenow": percent,
    },
    fill,
  );
}

// A button that copies, and says for a moment that it did.
export function copyButton(text: () => string): HTMLButtonElement {
  const button = iconButton("copy", "Copy", async () => {
    await copyText(text());
    button.replaceChildren(icon("check"));
    button.setAttribute("aria-label", "Copied");
    setTimeout(() => {
      button.replaceChildren(icon("copy"));
      button.setAttribute("aria-label", "Copy");
    }, 1500);
  });
  return button;
}

async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Plain HTTP from another machine has no clipboard: the old way still works there.
  const area = h("textarea", { class: "visually-hidden" });
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
