// What the page remembers besides conversations: the key, the look, and the settings a new conversation starts with.

import type { Conversation } from "./conversation.ts";

export type Theme = "auto" | "light" | "dark";
type Defaults = Pick<Conversation, "model" | "system" | "sampling">;

interface Preferences {
  key: string;
  keepsKey: boolean; // past the closing of this tab
  wrapsCode: boolean;
  theme: Theme;
  machineOpen: boolean;
  defaults: Defaults;
}

const NAME = "tandem";
const KEY_NAME = "tandem-key"; // of a key that this tab alone knows
const INITIAL: Preferences = {
  key: "",
  keepsKey: true,
  wrapsCode: false,
  theme: "auto",
  machineOpen: false,
  defaults: { model: "", system: "", sampling: {} },
};

function load(): Preferences {
  try {
    const kept = JSON.parse(localStorage.getItem(NAME) ?? "{}") as Partial<Preferences>;
    const key = sessionStorage.getItem(KEY_NAME);
    return { ...INITIAL, ...kept, ...(key === null ? {} : { key, keepsKey: false }) };
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
  const { key, keepsKey } = current;
  try {
    localStorage.setItem(NAME, JSON.stringify({ ...current, key: keepsKey ? key : "" }));
    if (keepsKey) sessionStorage.removeItem(KEY_NAME);
    else sessionStorage.setItem(KEY_NAME, key);
  } catch {
    // no storage: kept until the page is closed
  }
}

// Another tab has changed them: this one must not write the old ones back.
export function readPreferences(): void {
  current = load();
}

export function applyLook(): void {
  document.documentElement.dataset["theme"] = current.theme;
  document.documentElement.dataset["wrap"] = String(current.wrapsCode);
}
