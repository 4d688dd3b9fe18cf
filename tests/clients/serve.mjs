// Starts build/tandem serve on a free port for a test, and stops it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";

const BINARY = fileURLToPath(new URL("../../build/tandem", import.meta.url));
const WAIT_MS = 20_000;

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

// args: what follows "tandem serve --port N", with the embedded model when nothing is given. known: a port to take again.
// variables: of its environment.
export async function startServer(args = ["tales"], known = undefined, variables = {}) {
  const port = known ?? await freePort();
  const child = spawn(BINARY, ["serve", "--port", String(port), ...args], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, ...variables },
  });
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (log += text));
  const url = `http://127.0.0.1:${port}`;
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    if (child.exitCode !== null || Date.now() > deadline) throw new Error(`tandem serve did not start:\n${log}`);
    const health = await fetch(`${url}/health`).catch(() => null);
    if (health?.ok) break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return {
    url,
    port,
    log: () => log,
    // SIGKILL: as when it crashes.
    async stop(signal = "SIGTERM") {
      child.kill(signal);
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
      return child.exitCode;
    },
  };
}

// What the server says of itself at this moment.
export async function live({ url }) {
  const stop = new AbortController();
  const response = await fetch(`${url}/api/tandem/live`, { signal: stop.signal });
  let text = "";
  for await (const bytes of response.body) {
    text += Buffer.from(bytes).toString();
    if (text.includes("}\n\n")) break;
  }
  stop.abort();
  return JSON.parse(/^data: (.*)$/m.exec(text)[1]);
}

// Waits until `check` gives something true.
export async function until(check, what) {
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
