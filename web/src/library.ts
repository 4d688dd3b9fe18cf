// All conversations: in memory, in the browser's storage, in its other tabs, in files.

import type { Conversation } from "./conversation.ts";
import { h } from "./dom.ts";
import { type Change, Store } from "./store.ts";
import { toast } from "./toast.ts";
import { exportText, importText } from "./transfer.ts";

const SAVE_MS = 1000; // between two saves of an answer that grows

export interface LibraryWatcher {
  isAnswering(conversation: Conversation): boolean; // here, in this tab
  changed(id: string): void; // by another tab, or from a file
}

export class Library {
  #store = new Store();
  #all = new Map<string, Conversation>();
  #lastSaved = new Map<string, number>();
  #elsewhere = new Set<string>(); // other tabs write an answer into them

  constructor(private watcher: LibraryWatcher) {
    this.#store.onChange((change) => void this.#readAgain(change));
  }

  async open(): Promise<void> {
    const keeps = await this.#store.open();
    if (!keeps) toast("This browser gives no storage: conversations are gone when the page is closed.");
    for (const conversation of await this.#store.all()) this.#all.set(conversation.id, conversation);
  }

  list(): Conversation[] {
    return [...this.#all.values()];
  }

  get(id: string): Conversation | undefined {
    return this.#all.get(id);
  }

  isWrittenElsewhere({ id }: Conversation): boolean {
    return this.#elsewhere.has(id);
  }

  add(conversation: Conversation): void {
    this.#all.set(conversation.id, conversation);
  }

  async save(conversation: Conversation): Promise<void> {
    if (!this.#all.has(conversation.id)) return; // deleted meanwhile
    this.#lastSaved.set(conversation.id, Date.now());
    await this.#store
      .put(conversation, this.watcher.isAnswering(conversation))
      .catch((error: unknown) => toast(`The conversation could not be kept: ${String(error)}`));
  }

  saveWhileItGrows(conversation: Conversation): void {
    if (Date.now() - (this.#lastSaved.get(conversation.id) ?? 0) > SAVE_MS) void this.save(conversation);
  }

  async remove(id: string): Promise<void> {
    this.#all.delete(id);
    await this.#store.remove(id);
  }

  // The page goes away, and what it was answering with it.
  leave(conversation: Conversation): void {
    if (!this.watcher.isAnswering(conversation)) return;
    void this.save(conversation);
    this.#store.tell({ id: conversation.id, isWriting: false });
  }

  exportAll(): void {
    const blob = new Blob([exportText(this.list())], { type: "application/json" });
    const link = h("a", {
      href: URL.createObjectURL(blob),
      download: `tandem-${new Date().toISOString().slice(0, 10)}.json`,
    });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  async importFile(file: File): Promise<void> {
    try {
      const read = importText(await file.text());
      for (const conversation of read) {
        const known = this.#all.get(conversation.id);
        if (known && known.updated >= conversation.updated) continue; // the newer one stays
        this.add(conversation);
        await this.save(conversation);
        this.watcher.changed(conversation.id);
      }
      toast(read.length === 1 ? "1 conversation was imported." : `${read.length} conversations were imported.`);
    } catch (error) {
      toast(`${file.name}: ${(error as Error).message}`);
    }
  }

  async #readAgain({ id, isWriting }: Change): Promise<void> {
    if (isWriting) this.#elsewhere.add(id);
    else this.#elsewhere.delete(id);
    const conversation = await this.#store.get(id);
    const known = this.#all.get(id);
    if (known && this.watcher.isAnswering(known)) return; // what is put next takes it over
    if (conversation) this.#all.set(id, conversation);
    else this.#all.delete(id);
    this.watcher.changed(id);
  }
}
