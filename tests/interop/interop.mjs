// Loads every kind of GGUF file Tandem writes in llama.cpp and compares tokens, probabilities and greedy text.
import {execFileSync} from "node:child_process";
import {mkdirSync, readFileSync} from "node:fs";
import path from "node:path";
import {fileURLToPath} from "node:url";
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const here = path.dirname(fileURLToPath(import.meta.url)); // build/interop
const root = path.resolve(here, "../..");
const newTokens = 32;

// How far apart the logarithms of a probability may be. llama.cpp rounds activations to a type that goes with the
// weights: none for f32, f16, bf16, and blocks of 8-bit integers for quantized ones. About four times what was measured.
// Where two tokens are closer than that, either may win; such a difference in the text is called a tie.
// What is left of a model in iq1 turns small roundings into large ones: 0.71 and 0.66 were measured, of which llama.cpp's
// 8-bit activations are the cause: the same weights as f32 differ by 0.013 and 0.009, and tell the same texts.
// Both programs round activations to 8 bits now, each by its own blocks: of about two bits, 0.22 to 0.46 were measured.
const tolerance = {f32: 0.003, f16: 0.003, bf16: 0.03, iq2_s: 0.8, iq2_xs: 0.8, iq2_xxs: 0.8, tq1_0: 0.8, tq2_0: 0.8, iq1_s: 1.5, iq1_m: 1.5};
const quantizedTolerance = 0.4;

const types = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl",
  "iq4_xs", "mxfp4", "nvfp4", "iq3_s", "iq3_xxs", "iq2_s", "iq2_xs", "iq2_xxs", "iq1_s", "iq1_m", "tq1_0", "tq2_0"];
const questions = ["Count to 15.", "Please spell treehouse.", "Tell me a story about a fox and a lantern."];
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

function tandemGreedy(file, ids) {
  const output = tandem("eval", file, "--tokens", ids.join(), "--greedy", `${newTokens}`, "--threads", "1");
  return output.trim().split(/\s+/).map(Number);
}

// One row per token: the logarithms of the probabilities of what follows it.
function tandemLogProbabilities(file, ids) {
  const logitsFile = path.join(here, "logits.f32");
  tandem("eval", file, "--tokens", ids.join(), "--logits", logitsFile, "--threads", "1");
  const bytes = readFileSync(logitsFile);
  const vocab = bytes.length / 4 / ids.length;
  return ids.map((_, row) => {
    const logits = Array.from({length: vocab}, (_, i) => bytes.readFloatLE(4 * (row * vocab + i)));
    const largest = Math.max(...logits);
    const total = largest + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - largest), 0));
    return logits.map((logit) => logit - total);
  });
}

async function llamaGreedy(context, ids) {
  const sequence = context.getSequence();
  const produced = [];
  for await (const token of sequence.evaluate(ids, {temperature: 0, yieldEogToken: true})) {
    produced.push(token);
    if (produced.length === newTokens || context.model.isEogToken(token)) break;
  }
  sequence.dispose();
  return produced;
}

// llama.cpp's probabilities for each of `answer`, given what is before it.
async function llamaProbabilities(context, ids, answer) {
  const plain = {temperature: 1, topK: 0, topP: 1, minP: 0, yieldEogToken: true};
  const sequence = context.getSequence();
  const rows = [];
  for (let i = 0; i < answer.length; ++i) {
    const given = i === 0 ? ids : [answer[i - 1]];
    const {value} = await sequence.evaluateWithMetadata(given, {probabilities: true}, plain).next();
    rows.push(value.probabilities);
  }
  sequence.dispose();
  return rows;
}

function sameTokens(model, file) {
  return strings.filter((text) => {
    const theirs = model.tokenize(text, true).join();
    const ours = tokenize(file, text, "--no-bos").join();
    if (theirs !== ours) console.log(`  ${JSON.stringify(text)}: llama.cpp ${theirs}, tandem ${ours}`);
    return theirs === ours;
  }).length;
}

function largestDifference(theirs, ours) {
  let largest = 0;
  theirs.forEach((probabilities, i) => {
    for (const [token, p] of probabilities) {
      if (p > 0.01) largest = Math.max(largest, Math.abs(Math.log(p) - ours[i][token]));
    }
  });
  return largest;
}

async function compareAnswer(context, file, question, limit) {
  const {model} = context;
  const ids = tokenize(file, chatPrompt(question));
  const theirs = await llamaGreedy(context, ids);
  const ours = tandemGreedy(file, ids).slice(0, theirs.length);
  const probabilities = await llamaProbabilities(context, ids, ours);
  const logs = tandemLogProbabilities(file, [...ids, ...ours]).slice(ids.length - 1);
  const result = {question, of: theirs.length, difference: largestDifference(probabilities, logs), ours, theirs};

  const parted = theirs.findIndex((id, i) => id !== ours[i]);
  if (parted < 0) {
    const said = ours.filter((id) => !model.isEogToken(id));
    const {text} = JSON.parse(tandem("tokenize", file, "--decode", said.join(), "--json"));
    return {...result, equal: theirs.length, verdict: text === model.detokenize(said) ? "same" : "OTHER TEXT"};
  }
  const gap = Math.log(probabilities[parted].get(theirs[parted]) / probabilities[parted].get(ours[parted]));
  return {...result, equal: parted, gap, verdict: gap <= 2 * limit ? "tie" : "DIFFERENT"};
}

async function compareFile(llama, file) {
  const type = path.basename(file, ".gguf").split("-").at(-1);
  const limit = tolerance[type] ?? quantizedTolerance;
  const model = await llama.loadModel({modelPath: path.join(root, file), gpuLayers: 0});
  const context = await model.createContext({contextSize: 512, threads: 1});
  const tokenized = sameTokens(model, path.join(root, file));
  const answers = [];
  for (const question of questions) {
    answers.push(await compareAnswer(context, path.join(root, file), question, limit));
  }
  const difference = Math.max(...answers.map((answer) => answer.difference));
  const good = tokenized === strings.length && difference <= limit &&
    answers.every(({verdict}) => verdict === "same" || verdict === "tie");

  console.log([file.replace("build/interop/files/", "written: ").padEnd(26), `${tokenized}/${strings.length}`.padEnd(8),
    ...answers.map((a) => `${a.equal}/${a.of} ${a.verdict}`.padEnd(11)),
    difference.toFixed(4).padEnd(10), good ? "yes" : "NO"].join(" "));
  for (const {question, gap, ours, theirs, verdict} of answers.filter((a) => a.verdict !== "same")) {
    console.log(`    ${question} parted where log p differs by ${gap?.toFixed(4)}: ${verdict}`);
    console.log(`      llama.cpp: ${JSON.stringify(model.detokenize(theirs))}`);
    console.log(`      tandem:    ${JSON.stringify(model.detokenize(ours))}`);
  }
  await model.dispose();
  return good;
}

const llama = await getLlama({
  gpu: false, build: "never", skipDownload: true, progressLogs: false, logLevel: LlamaLogLevel.error,
});
console.log(`llama.cpp ${llama.llamaCppRelease.release} on the CPU, ${newTokens} tokens, greedy. Prompts:`);
questions.forEach((question, i) => console.log(`  ${i + 1}. ${question}`));
const columns = questions.map((_, i) => `tokens ${i + 1}`.padEnd(11)).join(" ");
console.log(`${"file".padEnd(26)} strings  ${columns} max dlog p agrees`);

const files = ["assets/tales-f16.gguf", "assets/tales-q8_0.gguf"];
mkdirSync(path.join(here, "files"), {recursive: true});
for (const type of types) {
  const file = `build/interop/files/tales-${type}.gguf`;
  tandem("quantize", path.join(root, "assets/tales-f16.gguf"), path.join(root, file), "--type", type, "--tensor-type", `.=${type}`,
    "--force");
  files.push(file);
}

let differ = 0;
for (const file of files) differ += (await compareFile(llama, file)) ? 0 : 1;
console.log(differ === 0 ? `all ${files.length} files agree` : `${differ} of ${files.length} files differ`);
process.exit(differ === 0 ? 0 : 1);
