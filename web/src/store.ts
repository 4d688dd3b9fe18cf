// Conversations kept in the browser (IndexedDB); what changes in one tab is told to the others.

import type { Conversation } from "./conversation.ts";

const DATABASE = "tandem";
const TABLE = "conversations";

function finished<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the browser's storage failed"));
  });
}

export class Store {
  #database: IDBDatabase | null = null;
  #tabs = new BroadcastChannel(DATABASE);

  // False when the browser gives no storage: the page then works, and forgets.
  async open(): Promise<boolean> {
    try {
      const request = indexedDB.open(DATABASE, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(TABLE, { keyPath: "id" });
      this.#database = await finished(request);
    } catch {
      return false;
    }
    return true;
  }

  // Calls back when another tab has changed the conversation with this id.
  onChange(callback: (id: string) => void): void {
    this.#tabs.onmessage = (event: MessageEvent<string>) => callback(event.data);
  }

  async all(): Promise<Conversation[]> {
    if (!this.#database) return [];
    return finished(this.#table("readonly").getAll() as IDBRequest<Conversation[]>);
  }

  async get(id: string): Promise<Conversation | undefined> {
    if (!this.#database) return undefined;
    return finished(this.#table("readonly").get(id) as IDBRequest<Conversation | undefined>);
  }

  async put(conversation: Conversation): Promise<void> {
    if (!this.#database) return;
    await finished(this.#table("readwrite").put(structuredClone(conversation)));
    this.#tabs.postMessage(conversation.id);
  }

  async remove(id: string): Promise<void> {
    if (!this.#database) return;
    await finished(this.#table("readwrite").delete(id));
    this.#tabs.postMessage(id);
  }

  #table(mode: IDBTransactionMode): IDBObjectStore {
    if (!this.#database) throw new Error("the store is not open");
    return this.#database.transaction(TABLE, mode).objectStore(TABLE);
  }
}
