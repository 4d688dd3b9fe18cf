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
import { ApiError } from "./api.ts";
import { Composer } from "./composer.ts";
import { Connection } from "./connection.ts";
import { ContextGauge } from "./context_gauge.ts";
import {
  addMessage,
  chooseBranch,
  type Conversation,
  firstTitle,
  type Message,
  newConversation,
  path,
  readPath,
  recentStart,
} from "./conversation.ts";
import { find, logo } from "./dom.ts";
import { KeyForm } from "./key_form.ts";
import { Library } from "./library.ts";
import { Machine } from "./machine.ts";
import { MessagesView } from "./messages_view.ts";
import { ModelPicker } from "./model_picker.ts";
import { ModelsDialog } from "./models_dialog.ts";
import { Panels } from "./panels.ts";
import { applyLook, preferences, readPreferences, setPreferences } from "./preferences.ts";
import { problemOf, sentenceOf } from "./problems.ts";
import { Settings } from "./settings.ts";
import { Sidebar } from "./sidebar.ts";
import { toast } from "./toast.ts";

const SUMMARY = "Summarise our conversation so far, so that we can go on from there.";

let current: Conversation = newConversation(preferences().defaults);

const library = new Library({
  isAnswering: (conversation) => answers.message(conversation) !== null,
  changed(id) {
    if (id !== current.id) return drawSidebar();
    current = library.get(id) ?? current;
    show();
  },
});

const answers = new Answers({
  changed(conversation, message) {
    if (conversation === current) messages.update(conversation, message, true);
    library.saveWhileItGrows(conversation);
  },
  ended(conversation, message, error) {
    void library.save(conversation);
    if (error) noticeFailure(error);
    else if (!picker.model?.max_model_len) void loadModels(); // it is loaded now, and its context is known
    if (conversation === current) {
      messages.update(conversation, message, false);
      composer.setBusy(runningMessage() !== null);
      drawGauge();
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
  goOn: (message) => goOn(message),
  leaveOut(message) {
    leaveOut();
    if (message.text !== "") return goOn(message);
    const question = current.messages.find((other) => other.id === message.parent);
    if (question) answer(question);
  },
  summarise,
  editQuestion: () => messages.editLast(),
  askForKey: () => keyForm.ask(),
  openSettings: () => settings.open(current, picker.model),
  context: () => picker.model?.max_model_len,
  hasNoModels: () => picker.hasNone,
  readAll() {
    delete current.window;
    void library.save(current);
    show();
  },
  choose(message) {
    answers.stop(current);
    chooseBranch(current, message);
    void library.save(current);
    show();
  },
});

const composer = new Composer({
  send: (text) => send(text),
  stop() {
    if (library.isWrittenElsewhere(current)) toast("Another tab writes this answer: it can be stopped there.");
    else answers.stop(current);
  },
  editLast: () => messages.editLast(),
});

const sidebar = new Sidebar({
  open: (id) => open(id),
  remove,
  exportAll: () => library.exportAll(),
  importFile: (file) => void library.importFile(file),
});

const settings = new Settings(({ title, system, sampling }, keyChanged) => {
  Object.assign(current, { title: title || firstTitle(current), system, sampling });
  setPreferences({ defaults: { ...preferences().defaults, system, sampling } });
  if (current.messages.length > 0) void library.save(current);
  drawSidebar();
  if (keyChanged) void loadModels();
});

const picker = new ModelPicker(useModel);
new ModelsDialog({
  use(model) {
    if (picker.choose(model)) useModel(model);
    composer.focus();
  },
  changed: () => void loadModels(),
  askForKey: () => noticeFailure(new ApiError("", 401)),
});
const keyForm = new KeyForm(() => void loadModels());
const connection = new Connection(() => void loadModels());
const gauge = new ContextGauge(() => {
  leaveOut();
  show();
});
const machine = new Machine(noticeFailure);
const panels = new Panels((open) => {
  machine.open = open;
});

function show(): void {
  messages.show(current, runningMessage());
  composer.setBusy(runningMessage() !== null);
  picker.choose(current.model);
  drawGauge();
  find("heading").textContent = current.title || "New conversation";
  document.title = current.title ? `${current.title} – Tandem` : "Tandem";
  drawSidebar();
}

// The answer of the conversation shown that is being written, here or in another tab.
function runningMessage(): Message | null {
  const elsewhere = library.isWrittenElsewhere(current) ? path(current).at(-1) : undefined;
  return answers.message(current) ?? elsewhere ?? null;
}

function useModel(model: string): void {
  current.model = model;
  setPreferences({ defaults: { ...preferences().defaults, model } });
  drawGauge();
}

function drawSidebar(): void {
  sidebar.show(library.list(), current.id);
}

function drawGauge(): void {
  const context = picker.model?.max_model_len;
  gauge.show(current, context, context !== undefined && recentStart(current, context) !== null);
}

function send(text: string): void {
  library.add(current);
  if (runningMessage()) return;
  answer(addMessage(current, current.leaf, { role: "user", text }));
}

function answer(question: Message): void {
  current.model = picker.chosen;
  history.replaceState(null, "", `#${current.id}`);
  const told = question.parent === null ? library.get(current.summaryOf ?? "") : undefined;
  void answers.start(current, question.id, told ? recentMessages(told) : []);
  showAnswering();
}

function goOn(message: Message): void {
  current.model = picker.chosen;
  void answers.goOn(current, message);
  showAnswering();
}

function showAnswering(): void {
  void library.save(current);
  show();
  composer.focus();
}

// The model reads on from where half of its context is free.
function leaveOut(): void {
  const first = recentStart(current, picker.model?.max_model_len ?? 0);
  if (first) current.window = { first: first.id, since: Date.now() };
  void library.save(current);
}

// What was said last, to the last answer: half of the context at most.
function recentMessages(conversation: Conversation): Message[] {
  const last = readPath(conversation).findLast(({ role, text }) => role === "assistant" && text !== "");
  const answered = { ...conversation, leaf: last?.id ?? null };
  const messages = readPath(answered);
  const first = recentStart(answered, picker.model?.max_model_len ?? 0);
  return first ? messages.slice(messages.indexOf(first)) : messages;
}

function summarise(): void {
  const { id, model, system, sampling, title } = current;
  current = newConversation({ model, system, sampling });
  Object.assign(current, { summaryOf: id, title: `${title} (continued)` });
  send(SUMMARY);
}

function open(id: string): void {
  const conversation = library.get(id);
  if (!conversation) return;
  current = conversation;
  history.replaceState(null, "", `#${id}`);
  panels.closeOverlays();
  show();
  composer.focus();
}

function startNew(): void {
  current = newConversation({ ...preferences().defaults, model: picker.chosen });
  history.replaceState(null, "", "#");
  panels.closeOverlays();
  show();
  composer.focus();
}

function remove(id: string): void {
  const conversation = library.get(id);
  if (!conversation) return;
  answers.stop(conversation);
  void library.remove(id);
  if (conversation === current) startNew();
  else drawSidebar();
  const undo = () => {
    library.add(conversation);
    void library.save(conversation);
    open(id);
  };
  toast(`“${conversation.title || "Untitled"}” was deleted.`, { label: "Undo", run: undo });
}

async function loadModels(): Promise<void> {
  try {
    await picker.load();
    keyForm.hide();
    machine.restart();
    const wanted = current.model || preferences().defaults.model;
    if (!picker.choose(wanted) && wanted && !picker.isEmpty) {
      toast(`The server does not have the model “${wanted}”: “${picker.chosen}” answers instead.`);
      current.model = picker.chosen;
      setPreferences({ defaults: { ...preferences().defaults, model: picker.chosen } });
    }
    if (current.messages.length === 0) show();
    else drawGauge();
  } catch (error) {
    noticeFailure(error);
  }
}

// What a failed request tells of the server: that it is gone, not ready, or wants a key.
function noticeFailure(error: unknown): void {
  const problem = problemOf(error);
  if (problem === "key") {
    picker.say("Key needed");
    keyForm.ask();
  } else if (problem === "lost" || problem === "unreachable" || problem === "starting") {
    if (picker.isEmpty) picker.say("No server");
    connection.missed();
  } else if (picker.isEmpty && error instanceof ApiError) {
    toast(sentenceOf(problem), { label: "Try again", run: () => void loadModels() });
  }
}

function listenToThePage(): void {
  find("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the fragment of the address is the conversation
    composer.focus();
  });
  find("new").addEventListener("click", startNew);
  find("open-settings").addEventListener("click", () => settings.open(current, picker.model));
  addEventListener("hashchange", () => open(location.hash.slice(1)));
  addEventListener("pagehide", () => library.leave(current));
  addEventListener("storage", () => {
    readPreferences();
    applyLook();
  });
}

async function start(): Promise<void> {
  applyLook();
  find("brand").prepend(logo());
  listenToThePage();
  await library.open();
  current = library.get(location.hash.slice(1)) ?? current;
  show();
  composer.focus();
  panels.start();
  await loadModels();
}

void start();
