// Conversations kept in the browser (IndexedDB); what changes in one tab is told to the others.

import { adopt, type Conversation } from "./conversation.ts";

const DATABASE = "tandem";
const TABLE = "conversations";

function finished<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the browser's storage failed"));
  });
}

export interface Change {
  id: string; // of the conversation
  isWriting: boolean; // an answer is under way there
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

  // Calls back when another tab has changed a conversation.
  onChange(callback: (change: Change) => void): void {
    this.#tabs.onmessage = (event: MessageEvent<Change>) => callback(event.data);
  }

  tell(change: Change): void {
    this.#tabs.postMessage(change);
  }

  async all(): Promise<Conversation[]> {
    if (!this.#database) return [];
    return finished(this.#table("readonly").getAll() as IDBRequest<Conversation[]>);
  }

  async get(id: string): Promise<Conversation | undefined> {
    if (!this.#database) return undefined;
    return finished(this.#table("readonly").get(id) as IDBRequest<Conversation | undefined>);
  }

  // What other tabs have put into it stays.
  async put(conversation: Conversation, isWriting: boolean): Promise<void> {
    if (!this.#database) return;
    const table = this.#table("readwrite"); // one transaction: no other tab comes between
    const kept = await finished(table.get(conversation.id) as IDBRequest<Conversation | undefined>);
    if (kept) adopt(conversation, kept);
    await finished(table.put(structuredClone(conversation)));
    this.tell({ id: conversation.id, isWriting });
  }

  async remove(id: string): Promise<void> {
    if (!this.#database) return;
    await finished(this.#table("readwrite").delete(id));
    this.tell({ id, isWriting: false });
  }

  #table(mode: IDBTransactionMode): IDBObjectStore {
    if (!this.#database) throw new Error("the store is not open");
    return this.#database.transaction(TABLE, mode).objectStore(TABLE);
  }
}
