// What the page remembers besides conversations: the key, the look, and the settings a new conversation starts with.

import type { Conversation } from "./conversation.ts";

export type Theme = "auto" | "light" | "dark";
type Defaults = Pick<Conversation, "model" | "system" | "sampling">;

interface Preferences {
  key: string;
  theme: Theme;
  machineOpen: boolean;
  defaults: Defaults;
}

const NAME = "tandem";
const INITIAL: Preferences = {
  key: "",
  theme: "auto",
  machineOpen: false,
  defaults: { model: "", system: "", sampling: {} },
};

function load(): Preferences {
  try {
    return { ...INITIAL, ...(JSON.parse(localStorage.getItem(NAME) ?? "{}") as Partial<Preferences>) };
  } catch {
    return INITIAL;
  }
}

let current = load();

export function preferences(): Readonly<Preferences> {
  return current;
}

export function setPreferences(change: Partial<Preferences>): void {
  current = { ...current, ...change };
  try {
    localStorage.setItem(NAME, JSON.stringify(current));
  } catch {
    // no storage: kept until the page is closed
  }
}

export function applyTheme(): void {
  document.documentElement.dataset["theme"] = current.theme;
}
