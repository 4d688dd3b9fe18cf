// The page: puts the parts together and holds what they share.

import "./style/base.css";
import "./style/panels.css";
import "./style/conversation.css";
import "./style/composer.css";
import "./style/prose.css";
import "./style/machine.css";
import "./style/dialogs.css";
import "./style/small.css";
import { Answers } from "./answers.ts";
import { ApiError, listModels } from "./api.ts";
import { Composer } from "./composer.ts";
import {
  addMessage,
  chooseBranch,
  type Conversation,
  firstTitle,
  type Message,
  newConversation,
} from "./conversation.ts";
import { find, h } from "./dom.ts";
import { Machine } from "./machine.ts";
import { MessagesView } from "./messages_view.ts";
import { Panels } from "./panels.ts";
import { applyTheme, preferences, setPreferences } from "./preferences.ts";
import { Settings } from "./settings.ts";
import { Sidebar } from "./sidebar.ts";
import { Store } from "./store.ts";
import { toast } from "./toast.ts";
import { exportText, importText } from "./transfer.ts";

const SAVE_MS = 1000; // between two saves of an answer that grows

const store = new Store();
const conversations = new Map<string, Conversation>();
let current: Conversation = newConversation(preferences().defaults);
const lastSaved = new Map<string, number>();

const answers = new Answers({
  changed(conversation, message) {
    if (conversation === current) messages.update(conversation, message, true);
    if (Date.now() - (lastSaved.get(conversation.id) ?? 0) > SAVE_MS) void save(conversation);
  },
  ended(conversation, message, error) {
    void save(conversation);
    if (error instanceof ApiError && error.status === 401) askForKey();
    if (conversation === current) {
      messages.update(conversation, message, false);
      composer.setBusy(answers.message(current) !== null);
    }
    drawSidebar();
  },
});

const messages = new MessagesView({
  ask: (text) => send(text),
  edit(message, text) {
    answers.stop(current);
    answer(addMessage(current, message.parent, { role: "user", text }));
  },
  retry(message) {
    const question = current.messages.find((other) => other.id === message.parent);
    if (question) answer(question);
  },
  choose(message) {
    answers.stop(current);
    chooseBranch(current, message);
    void save(current);
    show();
  },
});

const composer = new Composer({
  send: (text) => send(text),
  stop: () => answers.stop(current),
  editLast: () => messages.editLast(),
});

const sidebar = new Sidebar({
  open: (id) => open(id),
  remove: (id) => void remove(id),
  exportAll,
  importFile: (file) => void importFile(file),
});

const settings = new Settings(({ title, system, sampling }, keyChanged) => {
  Object.assign(current, { title: title || firstTitle(current), system, sampling });
  setPreferences({ defaults: { ...preferences().defaults, system, sampling } });
  if (current.messages.length > 0) void save(current);
  drawSidebar();
  if (keyChanged) void loadModels();
});

const machine = new Machine(() => askForKey());
const panels = new Panels((open) => {
  machine.open = open;
});

function show(): void {
  messages.show(current, answers.message(current));
  composer.setBusy(answers.message(current) !== null);
  const model = find<HTMLSelectElement>("model");
  if (current.model && Array.from(model.options, (option) => option.value).includes(current.model))
    model.value = current.model;
  find("heading").textContent = current.title || "New conversation";
  document.title = current.title ? `${current.title} – Tandem` : "Tandem";
  drawSidebar();
}

function drawSidebar(): void {
  sidebar.show([...conversations.values()], current.id);
}

function send(text: string): void {
  conversations.set(current.id, current);
  const running = answers.message(current);
  if (running) return;
  answer(addMessage(current, current.leaf, { role: "user", text }));
}

function answer(question: Message): void {
  current.model = find<HTMLSelectElement>("model").value;
  history.replaceState(null, "", `#${current.id}`);
  void answers.start(current, question.id);
  void save(current);
  show();
  composer.focus();
}

async function save(conversation: Conversation): Promise<void> {
  if (!conversations.has(conversation.id)) return; // deleted meanwhile
  lastSaved.set(conversation.id, Date.now());
  await store
    .put(conversation)
    .catch((error: unknown) => toast(`The conversation could not be kept: ${String(error)}`));
}

function open(id: string): void {
  const conversation = conversations.get(id);
  if (!conversation) return;
  current = conversation;
  history.replaceState(null, "", `#${id}`);
  panels.closeOverlays();
  show();
  composer.focus();
}

function startNew(): void {
  current = newConversation({ ...preferences().defaults, model: find<HTMLSelectElement>("model").value });
  history.replaceState(null, "", "#");
  panels.closeOverlays();
  show();
  composer.focus();
}

async function remove(id: string): Promise<void> {
  const conversation = conversations.get(id);
  if (!conversation) return;
  answers.stop(conversation);
  conversations.delete(id);
  if (conversation === current) startNew();
  else drawSidebar();
  const undo = () => {
    conversations.set(id, conversation);
    void save(conversation);
    open(id);
  };
  toast(`“${conversation.title || "Untitled"}” was deleted.`, { label: "Undo", run: undo });
  await store.remove(id);
}

function exportAll(): void {
  const blob = new Blob([exportText([...conversations.values()])], { type: "application/json" });
  const link = h("a", {
    href: URL.createObjectURL(blob),
    download: `tandem-${new Date().toISOString().slice(0, 10)}.json`,
  });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

async function importFile(file: File): Promise<void> {
  try {
    const read = importText(await file.text());
    for (const conversation of read) {
      const known = conversations.get(conversation.id);
      if (known && known.updated >= conversation.updated) continue; // the newer one stays
      conversations.set(conversation.id, conversation);
      await save(conversation);
      if (conversation.id === current.id) current = conversation;
    }
    toast(read.length === 1 ? "1 conversation was imported." : `${read.length} conversations were imported.`);
  } catch (error) {
    toast(`${file.name}: ${(error as Error).message}`);
  }
  show();
}

async function loadModels(): Promise<void> {
  const select = find<HTMLSelectElement>("model");
  try {
    const models = await listModels();
    const wanted = current.model || preferences().defaults.model;
    select.replaceChildren(...models.map(({ id }) => h("option", { value: id }, id)));
    if (models.some(({ id }) => id === wanted)) select.value = wanted;
    find("key-form").hidden = true;
    machine.restart();
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) askForKey();
    else toast((error as Error).message, { label: "Try again", run: () => void loadModels() });
  }
}

function askForKey(): void {
  const form = find("key-form");
  if (!form.hidden) return;
  form.hidden = false;
  find<HTMLInputElement>("key").focus();
}

function listenToThePage(): void {
  find("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the fragment of the address is the conversation
    composer.focus();
  });
  find("new").addEventListener("click", startNew);
  find("open-settings").addEventListener("click", () => settings.open(current));
  find("model").addEventListener("change", (event) => {
    const { value } = event.target as HTMLSelectElement;
    current.model = value;
    setPreferences({ defaults: { ...preferences().defaults, model: value } });
  });
  find("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    setPreferences({ key: find<HTMLInputElement>("key").value.trim() });
    find("key-form").hidden = true;
    void loadModels();
  });
  addEventListener("hashchange", () => open(location.hash.slice(1)));
  addEventListener("pagehide", () => {
    if (answers.message(current)) void save(current);
  });
  store.onChange((id) => void readAgain(id));
}

// Another tab has changed it.
async function readAgain(id: string): Promise<void> {
  const conversation = await store.get(id);
  if (answers.message(current) && id === current.id) return;
  if (conversation) conversations.set(id, conversation);
  else conversations.delete(id);
  if (id === current.id && conversation) current = conversation;
  if (id === current.id) show();
  else drawSidebar();
}

async function start(): Promise<void> {
  applyTheme();
  listenToThePage();
  const kept = await store.open();
  if (!kept) toast("This browser gives no storage: conversations are gone when the page is closed.");
  for (const conversation of await store.all()) conversations.set(conversation.id, conversation);
  current = conversations.get(location.hash.slice(1)) ?? current;
  show();
  composer.focus();
  panels.start();
  await loadModels();
}

void start();
