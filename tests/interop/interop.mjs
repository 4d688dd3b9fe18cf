// Loads every kind of GGUF file Tandem writes in llama.cpp and compares tokens and greedy text with Tandem's own.
import {execFileSync} from "node:child_process";
import {mkdirSync} from "node:fs";
import path from "node:path";
import {fileURLToPath} from "node:url";
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const here = path.dirname(fileURLToPath(import.meta.url)); // build/interop
const root = path.resolve(here, "../..");
const newTokens = 32;

const types = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k"];
const questions = ["Tell me a story about a fox and a lantern.", "What is 7 plus 5?", "Who lives in the forest?"];
const strings = [
  "Once upon a time there was a little fox.",
  "  two spaces,\ttab and\nnewline  ",
  "Über naïve café: 東京, 12345 + 67 = ?",
  "<start_of_turn>user\nHello<end_of_turn>\n",
  "\u{1F98A} e\u0301",
  "",
];

function tandem(...args) {
  return execFileSync(path.join(root, "build/tandem"), args, {encoding: "utf8", stdio: ["ignore", "pipe", "inherit"]});
}

const chatPrompt = (question) => `<start_of_turn>user\n${question}<end_of_turn>\n<start_of_turn>model\n`;
const tokenize = (file, text, ...flags) => JSON.parse(tandem("tokenize", file, text, "--json", ...flags)).ids;
const numbers = (text) => text.split(/[\s,]+/).filter(Boolean).map(Number);

function equalPrefix(a, b) {
  const differs = a.findIndex((id, i) => id !== b[i]);
  return differs < 0 ? Math.min(a.length, b.length) : differs;
}

// Both lists end with the first token that ends an answer.
function untilEnd(model, ids) {
  const end = ids.findIndex((id) => model.isEogToken(id));
  return end < 0 ? ids : ids.slice(0, end + 1);
}

async function greedy(context, ids) {
  const sequence = context.getSequence();
  const produced = [];
  for await (const token of sequence.evaluate(ids, {temperature: 0, yieldEogToken: true})) {
    produced.push(token);
    if (produced.length === newTokens || context.model.isEogToken(token)) break;
  }
  sequence.dispose();
  return produced;
}

function compareTokenizers(model, file) {
  return strings.filter((text) => {
    const theirs = model.tokenize(text, true).join();
    const ours = tokenize(file, text, "--no-bos").join();
    if (theirs !== ours) console.log(`  ${JSON.stringify(text)}: llama.cpp ${theirs}, tandem ${ours}`);
    return theirs === ours;
  }).length;
}

async function compareText(context, file, question) {
  const ids = tokenize(file, chatPrompt(question));
  const theirs = untilEnd(context.model, await greedy(context, ids));
  const ours = untilEnd(context.model, numbers(tandem("eval", file, "--tokens", ids.join(), "--greedy", `${newTokens}`, "--threads", "1")));
  const spoken = (tokens) => tokens.filter((id) => !context.model.isEogToken(id));
  const theirText = context.model.detokenize(spoken(theirs), false);
  const ourText = tandem("tokenize", file, "--decode", spoken(ours).join()).replace(/\n$/, "");
  return {question, equal: equalPrefix(theirs, ours), of: theirs.length, same: theirText === ourText, theirText, ourText};
}

async function compareFile(llama, file) {
  const model = await llama.loadModel({modelPath: file, gpuLayers: 0});
  const context = await model.createContext({contextSize: 512, threads: 1});
  const tokenized = compareTokenizers(model, file);
  const texts = [];
  for (const question of questions) texts.push(await compareText(context, file, question));
  await model.dispose();
  return {tokenized, texts};
}

function report(name, {tokenized, texts}) {
  const equal = texts.map((t) => `${t.equal}/${t.of}`).join("  ");
  const good = tokenized === strings.length && texts.every((t) => t.same && t.equal === t.of);
  console.log(`${name.padEnd(22)} ${`${tokenized}/${strings.length}`.padEnd(16)} ${equal.padEnd(24)} ${good ? "yes" : "NO"}`);
  for (const {question, theirText, ourText, same} of texts) {
    if (!same) console.log(`  ${question}\n    llama.cpp: ${JSON.stringify(theirText)}\n    tandem:    ${JSON.stringify(ourText)}`);
  }
  return good;
}

const llama = await getLlama({
  gpu: false, build: "never", skipDownload: true, progressLogs: false, logLevel: LlamaLogLevel.error,
});
console.log(`llama.cpp ${llama.llamaCppRelease.release}, CPU; ${newTokens} tokens, greedy, ${questions.length} prompts`);
console.log(`${"file".padEnd(22)} ${"strings equal".padEnd(16)} ${"tokens equal".padEnd(24)} same text`);

const files = ["assets/tales-f16.gguf", "assets/tales-q8_0.gguf"];
mkdirSync(path.join(here, "files"), {recursive: true});
for (const type of types) {
  const file = `build/interop/files/tales-${type}.gguf`;
  tandem("quantize", path.join(root, "assets/tales-f16.gguf"), path.join(root, file), "--type", type);
  files.push(file);
}

let failed = 0;
for (const file of files) {
  const name = file.replace("build/interop/files/", "quantize ");
  if (!report(name, await compareFile(llama, path.join(root, file)))) failed += 1;
}
console.log(failed === 0 ? `all ${files.length} files agree` : `${failed} of ${files.length} files differ`);
process.exit(failed === 0 ? 0 : 1);
