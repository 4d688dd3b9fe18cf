// Asks a server (tandem serve) and prints its answer as it is written; Node 18 or newer: node client.mjs [URL [PROMPT]]
const [url = "http://127.0.0.1:8080", prompt = "Tell me a story about a fox"] = process.argv.slice(2);

async function* lines(stream) {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const bytes of stream) {
        const parts = (rest + decoder.decode(bytes, { stream: true })).split("\n");
        rest = parts.pop();
        yield* parts;
    }
}

async function* ask(messages) {
    const response = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ messages, stream: true, max_tokens: 100 }),
    });
    if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
    for await (const line of lines(response.body)) {
        if (!line.startsWith("data: ") || line.startsWith("data: [DONE]")) continue;
        for (const choice of JSON.parse(line.slice("data: ".length)).choices) yield choice.delta.content ?? "";
    }
}

try {
    for await (const piece of ask([{ role: "user", content: prompt }])) process.stdout.write(piece);
    process.stdout.write("\n");
} catch (error) {
    console.error(`client.mjs: ${error.message}${error.cause ? ` (${error.cause.code}): is tandem serve running?` : ""}`);
    process.exitCode = 1;
}
