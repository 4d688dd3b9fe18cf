// Server-sent events, and lines, out of bytes that come in pieces of any size.

export class EventParser {
  #rest = "";
  #data: string[] = [];

  // The data of the events that are complete with this piece.
  push(text: string): string[] {
    const events: string[] = [];
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line.startsWith("data:")) {
        this.#data.push(line.startsWith("data: ") ? line.slice(6) : line.slice(5));
      } else if (line === "" && this.#data.length > 0) {
        events.push(this.#data.join("\n"));
        this.#data = [];
      } // comments keep the connection open; other fields are not used here
    }
    return events;
  }
}

export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const parser = new EventParser();
  for await (const piece of readText(body)) yield* parser.push(piece);
}

// Lines that are not empty.
export async function* readLines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = "";
  for await (const piece of readText(body)) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    yield* lines.filter((line) => line.trim() !== "");
  }
  if (rest.trim() !== "") yield rest;
}

async function* readText(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined); // whoever stops listening hangs up
  }
}
