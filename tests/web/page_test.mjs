// The page in a real browser, before a real server with the embedded model. Pictures land in build/web_tests/.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { live, startServer, until } from "../clients/serve.mjs";

const PICTURES = new URL("../../build/web_tests/", import.meta.url).pathname;
const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const STORY = "Tell me a story about a fox and a lantern.";
const DESKTOP = { viewport: { width: 1280, height: 800 } };
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

let server;
let browser;
before(async () => {
  server = await startServer();
  browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox"],
    ignoreDefaultArgs: ["--hide-scrollbars"], // pictures show what readers see
  });
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

// Opens the page in a browser of its own, runs the test, and fails on any complaint of the browser's.
function inBrowser(name, options, run) {
  test(name, async () => {
    const context = await browser.newContext({ reducedMotion: "reduce", acceptDownloads: true, ...options });
    context.setDefaultTimeout(15_000);
    try {
      const page = await context.newPage();
      const complaints = [];
      page.on("pageerror", (error) => complaints.push(error.message));
      page.on("console", (message) => {
        const expected = /status of (400|404|429|500|503)/.test(message.text());
        if (["error", "warning"].includes(message.type()) && !expected) complaints.push(message.text());
      });
      await page.goto(server.url);
      await page.waitForSelector("#model:enabled");
      await run(page, context);
      assert.deepEqual(complaints, []);
    } finally {
      await context.close();
    }
  });
}

const answers = (page) => page.locator(".message.assistant .prose");
const idle = (page) => page.waitForSelector(".message.assistant:last-child[aria-busy=false]");
const write = async (page, text) => {
  await page.fill("#prompt", text);
  await page.press("#prompt", "Enter");
};
const ask = async (page, text) => {
  await write(page, text);
  await idle(page);
};
// Slow enough to be looked at while it lasts: many words, one after the other.
const longStory = (page) => page.route("**/v1/chat/completions", (route) => {
  const body = { ...route.request().postDataJSON(), max_tokens: 400, ignore_eos: true };
  return route.continue({ postData: JSON.stringify(body) });
});
const answerWith = (page, text, finish = "stop", usage = null) => page.route("**/v1/chat/completions", (route) => {
  const data = (chunk) => `data: ${JSON.stringify(chunk)}\n\n`;
  const chunk = (delta, finish_reason = null) => data({ choices: [{ index: 0, delta, finish_reason }] });
  const end = usage ? data({ choices: [], usage }) : "";
  const body = chunk({ role: "assistant" }) + chunk({ content: text }) + chunk({}, finish) + end + "data: [DONE]\n\n";
  return route.fulfill({ contentType: "text/event-stream", body });
});
const failWith = (page, status, error, headers = {}) =>
  page.route("**/v1/chat/completions", (route) => route.fulfill({ status, headers, json: { error } }), { times: 1 });
const picture = (page, name) => page.screenshot({ path: `${PICTURES}${name}.png` });
const checkAccess = async (page, what) => {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ["violations"] }));
  assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`), [], what);
};

inBrowser("a chat: the answer comes in pieces, then says how fast it was", DESKTOP, async (page) => {
  await picture(page, "welcome");
  await page.evaluate(() => {
    window.seen = new Set();
    new MutationObserver(() => window.seen.add(document.querySelector(".message.assistant .prose")?.textContent.length))
      .observe(document.querySelector("#messages"), { childList: true, subtree: true, characterData: true });
  });
  await ask(page, STORY);
  assert.match(await answers(page).innerText(), /fox/i);
  assert.ok(await page.evaluate(() => window.seen.size) > 2, "it was written piece by piece");
  assert.match(await page.innerText(".stats"), /tokens\/s · \d+ tokens · first after/);
  assert.equal(await page.title(), `${STORY} – Tandem`);
  await ask(page, "What is the opposite of cold?");
  assert.equal(await page.locator(".message").count(), 4);
  await picture(page, "chat");
});

inBrowser("stop: the answer ends where it is, and the server's work too", DESKTOP, async (page) => {
  await longStory(page);
  await write(page, STORY);
  await until(async () => (await answers(page).innerText()).length > 40, "some text");
  await page.click("#send[aria-label=Stop]");
  await idle(page);
  assert.equal(await page.innerText(".ending p"), "Stopped.");
  const length = (await answers(page).innerText()).length;
  await until(async () => (await live(server)).requests.running === 0, "the server to notice");
  assert.equal((await answers(page).innerText()).length, length);
});

inBrowser("a reload keeps the conversation", DESKTOP, async (page) => {
  await ask(page, STORY);
  const before = await answers(page).innerText();
  await page.reload();
  assert.equal(await answers(page).innerText(), before);
  assert.equal(await page.innerText("#conversations li.current .open"), STORY);
  await page.click("#new");
  assert.equal(await page.locator(".welcome").count(), 1);
  await page.click("#conversations .open");
  assert.equal(await answers(page).innerText(), before);
});

inBrowser("a reload in the middle of an answer keeps what there was", DESKTOP, async (page) => {
  await longStory(page);
  await write(page, STORY);
  await until(async () => (await answers(page).innerText()).length > 40, "some text");
  await page.reload();
  assert.equal(await page.innerText(".message.user .message-body"), STORY);
  assert.match(await page.innerText(".ending"), /cut off/);
});

inBrowser("edit and retry make branches; none is lost", DESKTOP, async (page) => {
  await ask(page, STORY);
  await page.hover(".message.assistant");
  await page.click("[aria-label=Retry]");
  await idle(page);
  assert.equal(await page.innerText(".message.assistant .branches"), "2 of 2");
  await page.hover(".message.user");
  await page.click("[aria-label=Edit]");
  await page.fill(".edit-area", "What is the opposite of cold?");
  await page.press(".edit-area", "Enter");
  await page.waitForSelector(".message.user .branches");
  await idle(page);
  assert.equal(await page.innerText(".message.user .message-body"), "What is the opposite of cold?");
  await page.hover(".message.user");
  await picture(page, "edited");
  await page.click(".message.user [aria-label='Previous version']");
  assert.equal(await page.innerText(".message.user .message-body"), STORY);
  assert.equal(await page.innerText(".message.assistant .branches"), "2 of 2");
});

inBrowser("export and import carry conversations to another browser", DESKTOP, async (page) => {
  await ask(page, STORY);
  const text = await answers(page).innerText();
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#export")]);
  const file = await download.path();
  const other = await browser.newContext(DESKTOP);
  const fresh = await other.newPage();
  await fresh.goto(server.url);
  await fresh.setInputFiles("#import-file", { name: "kept.json", mimeType: "application/json", buffer: await readFile(file) });
  await fresh.waitForSelector("text=1 conversation was imported.");
  await fresh.click("#conversations .open");
  assert.equal(await answers(fresh).innerText(), text);
  await fresh.setInputFiles("#import-file", { name: "odd.json", mimeType: "application/json", buffer: Buffer.from("[1]") });
  await fresh.waitForSelector("text=odd.json: The file is not an export");
  await other.close();
});

inBrowser("what is deleted can be brought back", DESKTOP, async (page) => {
  await ask(page, "What do bees make?");
  await page.hover("#conversations li");
  await page.click("#conversations [aria-label^=Delete]");
  assert.equal(await page.locator("#conversations li").count(), 0);
  await page.click("#toast >> text=Undo");
  assert.equal(await page.locator("#conversations li").count(), 1);
  await page.reload();
  assert.equal(await page.locator("#conversations li").count(), 1);
});

inBrowser("settings go out with the request", DESKTOP, async (page) => {
  await page.click("#open-settings");
  await picture(page, "settings");
  await page.fill("[name=system]", "Answer in one word.");
  await page.fill("[name=temperature]", "0");
  await page.fill("[name=max_tokens]", "5");
  await page.fill("[name=seed]", "3");
  await page.click("#settings >> text=Save");
  const [request] = await Promise.all([page.waitForRequest("**/v1/chat/completions"), ask(page, STORY)]);
  const body = request.postDataJSON();
  assert.deepEqual(body.messages.map(({ role }) => role), ["system", "user"]);
  assert.deepEqual([body.temperature, body.max_tokens, body.seed, body.top_p], [0, 5, 3, undefined]);
  assert.match(await page.innerText(".ending"), /length limit/);
});

inBrowser("settings that are left empty show what they come to", DESKTOP, async (page) => {
  const [model] = (await (await fetch(`${server.url}/v1/models`)).json()).data;
  await page.click("#open-settings");
  const placeholder = (name) => page.getAttribute(`[name=${name}]`, "placeholder");
  for (const name of ["temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty"])
    assert.equal(await placeholder(name), String(model.default_sampling[name]), name);
  assert.equal(await placeholder("top_k"), "0 (all)");
  assert.equal(await placeholder("max_tokens"), `up to ${model.max_model_len}`);
  assert.equal(await placeholder("seed"), "random");
});

inBrowser("hostile markdown is shown, not obeyed", DESKTOP, async (page) => {
  const hostile = [
    "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'><style>body { display: none }</style>",
    "[a](javascript:window.hit=3) ![b](https://example.org/spy.png) <a href='data:text/html,x'>c</a>",
    "<svg><a xlink:href='javascript:1'><text>d</text></a></svg><form action='//example.org'><button>e</button></form>",
    "```html\n<img src=x onerror=alert(1)>\n```",
    "| a | b |\n|---|--:|\n| 1 | 2 |\n\n- [x] done\n",
  ].join("\n\n");
  await answerWith(page, hostile);
  let asked = 0;
  page.on("request", (request) => (asked += request.url().startsWith(server.url) ? 0 : 1));
  await ask(page, "Be nasty.");
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.equal(asked, 0, "nothing was fetched from elsewhere");
  assert.equal(await page.locator(".prose :is(img, script, style, svg:not(.icon), form, [onerror], [style])").count(), 0);
  for (const link of await page.locator(".prose a[href]").all()) {
    assert.match(await link.getAttribute("href"), /^https?:/);
    assert.match(await link.getAttribute("rel"), /noopener/);
  }
  assert.equal((await page.innerText(".code-frame pre")).trim(), "<img src=x onerror=alert(1)>");
  assert.equal(await page.locator(".prose td[align=right]").count(), 1);
});

inBrowser("code can be copied", { ...DESKTOP, permissions: ["clipboard-read", "clipboard-write"] }, async (page) => {
  await answerWith(page, "```python\nprint(1)  # one\n```");
  await ask(page, "Code, please.");
  await page.click(".code-frame [aria-label=Copy]");
  await page.waitForSelector(".code-frame [aria-label=Copied]");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "print(1)  # one\n");
});

inBrowser("long lines of code scroll in sight, or are broken", DESKTOP, async (page) => {
  const width = () => page.$eval(".code-frame pre", (pre) => pre.scrollWidth - pre.clientWidth);
  await answerWith(page, `\`\`\`c\n${"int x = 1; ".repeat(40)}\n\`\`\``);
  await ask(page, "Code, please.");
  assert.ok(await width() > 0);
  assert.ok(await page.$eval(".code-frame pre", (pre) => pre.offsetHeight > pre.clientHeight), "a scrollbar is seen");
  assert.match(await page.$eval(".code-frame pre", (pre) => getComputedStyle(pre).backgroundImage), /gradient/);
  await picture(page, "code");
  await page.click("[aria-label='Wrap lines']");
  assert.equal(await page.getAttribute("[aria-label='Wrap lines']", "aria-pressed"), "true");
  assert.equal(await width(), 0);
  await page.reload();
  await page.waitForSelector("[aria-label='Wrap lines'][aria-pressed=true]");
  assert.equal(await width(), 0, "the choice is kept");
});

inBrowser("errors of the server are sentences; its own words are in the details", DESKTOP, async (page) => {
  const path = "/srv/models/gemma.gguf: tensor 'blk.3' ends at byte 8";
  const errors = [
    [500, { message: path, type: "server_error", code: "model_load_failed" }, /model could not be loaded/],
    [500, { message: path, type: "server_error", code: "internal_error" }, /went wrong in the server/],
    [404, { message: "no such model", type: "not_found_error", code: "model_not_found" }, /does not have this model/],
    [429, { message: "60 a minute", type: "rate_limit_error", code: "rate_limit_exceeded" }, /More was asked/],
    [503, { message: "the queue is full", type: "overloaded_error" }, /too much to do/],
    [400, { message: "temperature is 9", type: "invalid_request_error", param: "temperature" }, /did not accept/],
  ];
  for (const [status, error, sentence] of errors) {
    await failWith(page, status, error, { "Retry-After": "7" });
    await ask(page, "Hello.");
    const last = page.locator(".message:last-child .error");
    assert.match(await last.innerText(), sentence);
    assert.ok(!(await last.innerText()).includes(error.message));
    await last.locator("summary").click();
    assert.ok((await last.innerText()).includes(`HTTP ${status}`) && (await last.innerText()).includes(error.message));
    assert.match(await last.innerText(), /try again in 7 s/);
  }
  await picture(page, "errors");
  await page.click(".message:last-child .error button:text-is('Settings')");
  await page.click("#settings >> text=Cancel");
  await page.click(".message:last-child .error >> text=Retry");
  await page.waitForSelector(".message:last-child[aria-busy=false] .stats");
});

// Its own server: it is killed, and comes again.
test("a server that dies in the middle of an answer", async () => {
  let mortal = await startServer();
  const context = await browser.newContext({ ...DESKTOP, reducedMotion: "reduce" });
  try {
    const page = await context.newPage();
    await page.goto(mortal.url);
    await page.waitForSelector("#model:enabled");
    await longStory(page);
    await write(page, STORY);
    await until(async () => (await answers(page).innerText()).length > 40, "some text");
    await mortal.stop("SIGKILL");
    await page.waitForSelector(".message .error");
    const text = await answers(page).innerText();
    assert.ok(text.length > 40, "what had arrived is kept");
    assert.match(await page.innerText(".message .error"), /The connection to the server was lost; what had arrived is kept\./);
    assert.ok(!(await page.innerText("body")).includes("TypeError"));
    await page.waitForSelector("#connection:not([hidden])");
    await page.click("#new");
    assert.equal(await page.locator("img").count(), 0, "nothing on the page has to be fetched");
    assert.equal(await page.locator("svg.logo").count(), 2);
    await picture(page, "server-gone");
    await write(page, "Is anybody there?");
    await page.waitForSelector("text=The server cannot be reached. It may have been stopped");
    mortal = await startServer(["tales"], mortal.port);
    await page.waitForSelector("#connection", { state: "hidden" });
    await page.click(".message .error >> text=Retry");
    await page.waitForSelector(".message:last-child[aria-busy=false] .stats");
    await page.click(`#conversations >> text=${STORY}`);
    assert.equal(await answers(page).innerText(), text);
    await page.unrouteAll();
    await page.click(".message .error >> text=Continue");
    await page.waitForSelector(".message.assistant[aria-busy=false]:not(:has(.error))");
    assert.ok((await answers(page).innerText()).length > text.length, "it went on from there");
  } finally {
    await context.close();
    await mortal.stop();
  }
});

inBrowser("another server with other models, or none, is told", DESKTOP, async (page) => {
  await ask(page, "What do bees make?");
  await page.route("**/v1/models", (route) => route.fulfill({ json: { data: [{ id: "other" }, { id: "third", state: "failed" }] } }));
  await page.reload();
  await page.waitForSelector("text=The server does not have the model “tales”: “other” answers instead.");
  assert.deepEqual(await page.locator("#model option").allInnerTexts(), ["other", "third (cannot be loaded)"]);
  await page.route("**/v1/models", (route) => route.fulfill({ json: { data: [] } }));
  await page.click("#new");
  await page.reload();
  await page.waitForSelector("text=This server has no model yet.");
  assert.equal(await page.innerText("#model option"), "No models");
  await checkAccess(page, "no models");
});

// Lists as a server with a library has them, whatever lies on the machine that tests it.
const withLibrary = async (page, { pull }) => {
  const details = { family: "gemma3", parameter_size: "4.3B", quantization_level: "Q4_K_M" };
  const models = [{ name: "tales", size: 24e6, details: {} }, { name: "big", size: 400e9, details }];
  await page.route("**/api/tags", (route) => route.fulfill({ json: { models } }));
  const offer = (name, size_gb, fits, here = null) => ({ name, size_gb, fits, here, about: "for tests" });
  const offers = [offer("gemma3:4b", 2.5, true), offer("huge:1t", 600, false), offer("little", 0.02, true, "tales")];
  await page.route("**/api/tandem/catalog", (route) =>
    route.fulfill({ json: { can_pull: Boolean(pull), largest_bytes: 20e9, models: offers } }));
  await page.route("**/api/pull", (route) => route.fulfill(pull));
};

inBrowser("the models: what is there, what fits, by keyboard alone", DESKTOP, async (page) => {
  await withLibrary(page, { pull: { status: 404, json: { error: "'odd' is not known: name a model of Hugging Face" } } });
  await page.focus("#model");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#models[open] #models-here li");
  assert.deepEqual(await page.locator("#models-here .name").allInnerTexts(), ["tales\nloaded", "big\ngemma3 · 4.3B · Q4_K_M"]);
  assert.deepEqual(await page.locator("#models-here .fit").allInnerTexts(), ["24.0 MB\nfits", "400.0 GB\ntoo large"]);
  assert.deepEqual(await page.locator("#models-offered button").allInnerTexts(), ["Fetch", "Fetch", "Use"]);
  await checkAccess(page, "models");
  await picture(page, "models");
  await page.focus("#pull-name");
  await page.keyboard.type("odd");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".pull .error");
  assert.match(await page.innerText(".pull"), /odd could not be fetched[\s\S]*'odd' is not known/);
  await checkAccess(page, "a pull that failed");
  await picture(page, "models-failed");
  await page.click(".pull >> text=Dismiss");
  assert.equal(await page.locator(".pull").count(), 0);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#models[open]").count(), 0);
});

inBrowser("a pull that ends in the middle says so; a server that keeps to its models is told", DESKTOP, async (page) => {
  const line = (value) => JSON.stringify(value) + "\n";
  const begun = line({ status: "pulling manifest" }) + line({ status: "pulling a", digest: "a", total: 2e9, completed: 5e8 });
  await withLibrary(page, { pull: { contentType: "application/x-ndjson", body: begun } });
  await page.click("#open-models");
  await page.click("[aria-label='Fetch gemma3:4b']");
  await page.waitForSelector(".pull .error >> text=The connection to the server was lost");
  await page.click(".pull >> text=Dismiss");
  await page.unroute("**/api/pull");
  const noRoom = begun + line({ error: "no room on the disk: 1.5 GB are missing" });
  await page.route("**/api/pull", (route) => route.fulfill({ contentType: "application/x-ndjson", body: noRoom }));
  await page.click("[aria-label='Fetch gemma3:4b']");
  await page.waitForSelector(".pull .error >> text=no room on the disk");
  await page.click("#models-close");
  await withLibrary(page, { pull: null });
  await page.click("#open-models");
  await page.waitForSelector("#models-notice >> text=This server keeps to the models that it was started with.");
  assert.ok(await page.isHidden("#models-offered-part"));
});

// Its own server, with a library of its own and a hub that keeps half of the file until it is told to go on.
test("a model is fetched, and answers", async () => {
  const home = await mkdtemp(join(tmpdir(), "tandem-web-"));
  const hub = spawn("python3", ["-B", new URL("hub.py", import.meta.url).pathname], { stdio: ["pipe", "pipe", "inherit"] });
  const [line] = await once(createInterface(hub.stdout), "line");
  const variables = { HOME: home, HF_ENDPOINT: line, HF_HOME: join(home, "hf"), XDG_DATA_HOME: join(home, "data"), no_proxy: "localhost" };
  const fetching = await startServer(["tales"], undefined, variables);
  const context = await browser.newContext({ ...DESKTOP, reducedMotion: "reduce" });
  context.setDefaultTimeout(60_000);
  try {
    const page = await context.newPage();
    await page.goto(fetching.url);
    await page.waitForSelector("#model:enabled");
    await page.click("#open-models");
    await page.click("[aria-label='Fetch gemma3:1b']");
    await page.waitForSelector(".pull >> text=/\\d+\\.\\d MB of 8\\.5 MB/");
    await page.waitForFunction(() => Number(document.querySelector(".pull [role=progressbar]").ariaValueNow) > 0);
    await checkAccess(page, "a pull");
    await picture(page, "models-fetching");
    hub.stdin.write("\n");
    await page.waitForSelector("#models-notice >> text=gemma3:1b is here.");
    assert.equal(await page.locator(".pull").count(), 0);
    await page.click("[aria-label='Use gemma3:1b']");
    assert.equal(await page.$eval("#model", (select) => select.value), "ggml-org/gemma-3-1b-it-GGUF:Q4_K_M");
    await ask(page, STORY);
    assert.match(await answers(page).innerText(), /fox/i);
  } finally {
    await context.close();
    await fetching.stop();
    hub.kill();
    await rm(home, { recursive: true });
  }
});

inBrowser("an answer that stopped at a limit goes on where it ended", DESKTOP, async (page) => {
  await page.route("**/v1/chat/completions", (route) =>
    route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), max_tokens: 8, ignore_eos: true }) }));
  await ask(page, STORY);
  const text = await answers(page).innerText();
  const [request] = await Promise.all([page.waitForRequest("**/v1/chat/completions"), page.click("text=Continue")]);
  await page.waitForSelector(".ending >> text=Continue");
  const { messages, continue_final_message: goesOn } = request.postDataJSON();
  assert.deepEqual([messages.length, messages.at(-1).role, goesOn], [2, "assistant", true]);
  const longer = await answers(page).innerText();
  assert.ok(longer.startsWith(text) && longer.length > text.length, longer);
  assert.match(await page.innerText(".stats"), /16 tokens/);
});

inBrowser("an answer with reasoning goes on without thinking again", DESKTOP, async (page) => {
  const chunk = (delta, finish_reason = null) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  await page.route("**/v1/chat/completions", (route) => route.fulfill({
    contentType: "text/event-stream",
    body: chunk({ reasoning_content: "Let me <think>." }) + chunk({ content: "One, " }) + chunk({}, "length") + "data: [DONE]\n\n",
  }), { times: 1 });
  await ask(page, "Count.");
  assert.equal(await page.textContent(".reasoning-text"), "Let me <think>.");
  await answerWith(page, "two.");
  const [request] = await Promise.all([page.waitForRequest("**/v1/chat/completions"), page.click("text=Continue")]);
  await page.waitForSelector(".message.assistant[aria-busy=false]:not(:has(.ending))");
  assert.equal(request.postDataJSON().chat_template_kwargs.enable_thinking, false);
  assert.equal(await answers(page).innerText(), "One, two.");
});

inBrowser("what was never answered goes out with the next question; what was too long does not", DESKTOP, async (page) => {
  const sent = async (text) => {
    const [request] = await Promise.all([page.waitForRequest("**/v1/chat/completions"), ask(page, text)]);
    return request.postDataJSON().messages.map(({ content }) => content);
  };
  await failWith(page, 400, { message: "too long", code: "context_length_exceeded", n_prompt_tokens: 5000 });
  await ask(page, "Too long.");
  await failWith(page, 503, { message: "busy", type: "overloaded_error" });
  assert.deepEqual(await sent("First."), ["First."]);
  assert.deepEqual(await sent("Second."), ["First.\n\nSecond."]);
});

// Its own server: with so little context that a story fills it.
test("at the end of the context there is a way on", async () => {
  const small = await startServer(["tales", "--context", "256"]);
  const context = await browser.newContext({ ...DESKTOP, reducedMotion: "reduce" });
  try {
    const page = await context.newPage();
    context.setDefaultTimeout(20_000);
    await page.goto(small.url);
    await page.waitForSelector("#model:enabled");
    await ask(page, "What do bees make?");
    assert.match(await page.innerText("#context-words"), /^\d+ of 256 tokens of context$/);
    assert.equal(await page.locator("#context.nearly").count(), 0);
    await page.route("**/v1/chat/completions", (route) =>
      route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ignore_eos: true }) }), { times: 1 });
    await ask(page, STORY);
    assert.match(await page.innerText(".message:last-child .ending"), /fills all that the model can read/);
    assert.equal(await page.locator("#context.nearly").count(), 1);
    await picture(page, "context-full");
    await page.click("text=Leave out the oldest messages");
    await page.waitForSelector("text=The model no longer reads what is above.");
    await idle(page);
    await checkAccess(page, "left out");
    await picture(page, "context-left-out");
    await page.click("text=Read it again");
    assert.equal(await page.locator(".window").count(), 0);
    await ask(page, `Say it once more. ${"Please. ".repeat(80)}`);
    assert.match(await page.innerText(".message:last-child .error"), /is longer than the model can read at once \(\d+ tokens, where 256 fit\)/);
    const [request] = await Promise.all([
      page.waitForRequest("**/v1/chat/completions"),
      page.click("text=New conversation with a summary"),
    ]);
    const { messages } = request.postDataJSON();
    assert.match(messages.at(-1).content, /^Summarise/);
    assert.ok(messages.some(({ role, content }) => role === "assistant" && content.includes("fox")), "there is something to summarise");
    assert.ok(!messages.some(({ content }) => content.includes("Please. Please.")), "what does not fit is not sent again");
    await idle(page);
    assert.match(await page.innerText("h1"), /continued/);
  } finally {
    await context.close();
    await small.stop();
  }
});

test("a server that wants a key is given one", async () => {
  const folder = await mkdtemp(join(tmpdir(), "tandem-web-"));
  await writeFile(join(folder, "keys"), "sk-open-sesame-now use somebody\n", { mode: 0o600 });
  const locked = await startServer(["tales", "--api-keys", join(folder, "keys")]);
  const context = await browser.newContext(DESKTOP);
  try {
    const page = await context.newPage();
    await page.goto(locked.url);
    await page.waitForSelector("#key-form:not([hidden])");
    assert.equal(await page.innerText("#model option"), "Key needed");
    assert.ok(await page.isHidden("#composer"), "nothing can be asked before");
    assert.ok(await page.isHidden("#key-wrong"));
    await checkAccess(page, "key");
    await picture(page, "key");
    await page.fill("#key", "sk-not-this-one-please");
    await page.press("#key", "Enter");
    await page.waitForSelector("text=The server does not know this key.");
    await page.fill("#key", "sk-open-sesame-now");
    await page.uncheck("#key-keep");
    await page.press("#key", "Enter");
    await page.waitForSelector("#key-form", { state: "hidden" });
    await ask(page, "What do bees make?");
    assert.match(await answers(page).innerText(), /honey/i);
    await page.click("#toggle-machine");
    await page.waitForSelector("#machine .device");
    assert.ok(!(await page.evaluate(() => localStorage.getItem("tandem"))).includes("sesame"), "this tab alone knows it");
    await page.reload();
    await page.waitForSelector("#model:enabled");
    const other = await context.newPage();
    await other.goto(locked.url);
    await other.waitForSelector("#key-form:not([hidden])");
    await other.fill("#key", "sk-open-sesame-now");
    await other.check("#key-keep");
    await other.press("#key", "Enter");
    await other.waitForSelector("#model:enabled");
    const third = await context.newPage();
    await third.goto(locked.url);
    await third.waitForSelector("#model:enabled");
  } finally {
    await context.close();
    await locked.stop();
    await rm(folder, { recursive: true });
  }
});

inBrowser("two tabs: what both write is kept, and an answer is seen as it grows", DESKTOP, async (page, context) => {
  await ask(page, "What do bees make?");
  const other = await context.newPage();
  await other.goto(page.url());
  await other.waitForSelector("#model:enabled");
  await longStory(page);
  await write(page, STORY);
  await until(async () => (await other.locator(".message").count()) === 4, "the other tab to show it");
  assert.equal(await other.getAttribute("#send", "aria-label"), "Stop");
  assert.equal(await other.locator(".ending").count(), 0, "nothing is cut off yet");
  await idle(page);
  await other.waitForSelector(".message:last-child[aria-busy=false] .ending");
  await other.waitForSelector("#send[aria-label=Send]");
  await ask(other, "And what do foxes eat?");
  await until(async () => (await page.locator(".message").count()) === 6, "the first tab to show it");
  await page.reload();
  assert.equal(await page.locator(".message").count(), 6);
});

inBrowser("a very long conversation shows its end, and the rest when it is asked for", DESKTOP, async (page) => {
  const messages = Array.from({ length: 250 }, (_, i) => ({
    id: `m${i}`, parent: i > 0 ? `m${i - 1}` : null, role: i % 2 ? "assistant" : "user", text: `number ${i}`, created: i, finish: "stop",
  }));
  const conversation = { id: "long", title: "Long", created: 1, updated: 2, model: "", system: "", sampling: {}, leaf: "m249", messages };
  const file = JSON.stringify({ format: "tandem-conversations", version: 1, conversations: [conversation] });
  await page.setInputFiles("#import-file", { name: "long.json", mimeType: "application/json", buffer: Buffer.from(file) });
  await page.click("#conversations .open");
  assert.equal(await page.locator(".message").count(), 100);
  const top = () => page.$eval("[data-id=m150]", (message) => message.getBoundingClientRect().top);
  await page.$eval("[data-id=m150]", (message) => message.scrollIntoView());
  const before = await top();
  const earlier = () => page.$eval(".earlier", (button) => button.click()); // a real click would scroll there
  await earlier();
  assert.equal(await page.locator(".message").count(), 200);
  assert.ok(Math.abs(await top() - before) < 2, "what was read stays in place");
  await earlier();
  assert.equal(await page.locator(".message").count(), 250);
  assert.equal(await page.locator(".earlier").count(), 0);
});

inBrowser("text that is pasted by the page is folded, and runs as its language does", DESKTOP, async (page) => {
  await answerWith(page, "مرحبا بالعالم\n\n```c\nint x;\n```\n\nHello, 你好");
  const pasted = `first line\n${"word ".repeat(20_000)}`;
  await ask(page, pasted);
  const height = () => page.$eval(".message.user .message-body", (body) => body.offsetHeight);
  assert.ok(await height() < 400);
  await page.click("text=Show all");
  assert.ok(await height() > 1000);
  await page.click("text=Show less");
  const directions = await page.$$eval(".prose .block, .code-frame", (all) => all.map((one) => getComputedStyle(one).direction));
  assert.deepEqual(directions, ["rtl", "ltr", "ltr", "ltr"]);
});

test("the page's files come with their policy, and travel once", async () => {
  const page = await fetch(server.url, { headers: { Accept: "text/html" } });
  assert.match(page.headers.get("content-type"), /^text\/html/);
  assert.match(page.headers.get("content-security-policy"), /default-src 'none'.*require-trusted-types-for 'script'/);
  for (const file of ["app.js", "app.css", "icon.svg"]) {
    const first = await fetch(`${server.url}/${file}`);
    assert.equal(first.status, 200, file);
    const again = await fetch(`${server.url}/${file}`, { headers: { "If-None-Match": first.headers.get("etag") } });
    assert.equal(again.status, 304, file);
    assert.equal(await again.text(), "");
  }
  assert.equal((await fetch(`${server.url}/nothing.js`)).status, 404);
});

inBrowser("the live view under load", { viewport: { width: 1440, height: 1100 } }, async (page) => {
  await page.click("#toggle-machine");
  const stop = new AbortController();
  const load = Array.from({ length: 12 }, (_, i) => fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    signal: stop.signal,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ model: "tales", max_tokens: 2000, ignore_eos: true, stream: true, seed: i, messages: [{ role: "user", content: STORY }] }),
  }).then((response) => response.text()).catch(() => null));
  const number = async (selector) => Number.parseFloat(await page.innerText(selector));
  await until(async () => await number("#machine .facts div:nth-child(2) strong") > 0, "requests that are answered");
  await until(async () => await number("#machine .rates .tokens strong") > 0, "tokens per second");
  assert.ok(await number("#machine .facts div:nth-child(2) strong") > 0, "tokens count while the answers are written");
  await until(async () => /^M[\d.]+ [\d.]+(L[\d.]+ [\d.]+){3}/.test(await page.getAttribute("#machine .chart-line.tokens", "d")), "a line");
  assert.ok(await page.locator("#machine .device .bar").count() > 0, "devices");
  assert.match(await page.innerText("#machine .model .small"), /of \d+ cache blocks/);
  const { memory_map: map } = await live(server);
  const bytes = (layer) => map.filter((entry) => layer(entry.layer)).reduce((sum, entry) => sum + entry.bytes, 0);
  const widths = await page.$$eval("#machine .map-bar .part:not(.tiny)", (parts) =>
    Object.fromEntries(parts.map((part) => [part.classList[1], part.getBoundingClientRect().width])));
  assert.ok(Object.keys(widths).length > 1, JSON.stringify(widths));
  const layers = bytes((layer) => Number.isInteger(Number(layer)));
  for (const [name, width] of Object.entries(widths)) {
    const expected = (name === "layers" ? layers : bytes((layer) => layer === name)) / layers;
    assert.ok(Math.abs(width - expected * widths.layers) <= 1, `${name} is to scale: ${width}, ${expected * widths.layers}`);
  }
  assert.match(await page.innerText("#machine .map-legend"), /Layers 0 to \d+\s*\d+ × [\d.]+ [KM]iB\s+[\d.]+ MiB/);
  assert.match(await page.getAttribute("#machine .map-bar", "aria-label"), /Layers 0 to \d+ [\d.]+ MiB, .*Cache [\d.]+ [MG]iB/);
  await picture(page, "machine");
  await checkAccess(page, "machine");
  stop.abort();
  await Promise.all(load);
  await until(async () => await number("#machine .facts div:nth-child(2) strong") === 0, "the end of the load");
});

inBrowser("everything works from the keyboard", DESKTOP, async (page) => {
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.getAttribute("aria-label"));
  assert.equal(await focused(), "prompt");
  await longStory(page);
  await page.keyboard.type("Tell me a story");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("about a fox.");
  assert.equal(await page.inputValue("#prompt"), "Tell me a story\nabout a fox.");
  await page.keyboard.press("Enter");
  await until(async () => (await answers(page).innerText()).length > 20, "some text");
  await page.keyboard.press("Escape");
  await idle(page);
  assert.equal(await page.innerText(".ending p"), "Stopped.");
  await page.keyboard.press("ArrowUp");
  assert.equal(await focused(), "Edit your message");
  await page.keyboard.press("Escape");
  assert.equal(await focused(), "Edit");
  await page.keyboard.press("/");
  assert.equal(await focused(), "prompt");
  await page.focus("#open-settings");
  await page.keyboard.press("Enter");
  assert.ok(await page.evaluate(() => document.querySelector("#settings").open));
  await page.keyboard.press("Escape");
  assert.equal(await focused(), "open-settings");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assert.equal(await page.getAttribute("#toggle-machine", "aria-expanded"), "true");
  await page.waitForSelector("#machine .device");
});

inBrowser("a screen reader hears the answer by sentences", DESKTOP, async (page) => {
  await answerWith(page, "One fox. Two lanterns. Three");
  await ask(page, "Count.");
  const said = await page.locator("#announcer p").allInnerTexts();
  assert.equal(said[0], "Answering");
  assert.equal(said.slice(1).join(" "), "One fox. Two lanterns. Three");
  assert.equal(await page.getAttribute("#announcer", "aria-live"), "polite");
});

for (const colorScheme of ["light", "dark"]) {
  inBrowser(`nothing to complain of for axe, ${colorScheme}`, { ...DESKTOP, colorScheme }, async (page) => {
    await checkAccess(page, "welcome");
    await answerWith(page, "## Title\n\nSome `code` and [a link](https://example.org).\n\n```c\nint x = 1; // one\n```\n\n> quote\n\n| a | b |\n|---|---|\n| 1 | 2 |");
    await ask(page, "Show me everything.");
    await checkAccess(page, "chat");
    const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
    assert.equal(paper[0] < 128, colorScheme === "dark");
    await picture(page, `markdown-${colorScheme}`);
    await page.click("#open-settings");
    await checkAccess(page, "settings");
  });
}

inBrowser("on a phone nothing is too wide, and panels lie over the chat", PHONE, async (page) => {
  const tooWide = () => page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  await answerWith(page, `${"long".repeat(60)}\n\n\`\`\`\n${"x".repeat(300)}\n\`\`\`\n\n| ${"wide | ".repeat(20)}\n|${"---|".repeat(20)}\n| ${"1 | ".repeat(20)}`);
  await ask(page, "Something wide.");
  assert.equal(await tooWide(), false);
  await picture(page, "phone");
  await page.tap("#toggle-sidebar");
  await page.waitForSelector("#sidebar:not([hidden])");
  assert.equal(await page.evaluate(() => document.querySelector("#main").inert), true);
  await checkAccess(page, "sidebar");
  await picture(page, "phone-sidebar");
  await page.tap("#conversations .open");
  await page.waitForSelector("#sidebar", { state: "hidden" });
  await page.tap("#toggle-machine");
  await page.waitForSelector("#machine .device");
  assert.equal(await tooWide(), false);
  await picture(page, "phone-machine");
  await page.keyboard.press("Escape");
  await page.waitForSelector("#machine", { state: "hidden" });
});
