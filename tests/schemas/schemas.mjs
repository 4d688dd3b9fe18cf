// Random JSON Schemas, answered by random walks through their grammars (schema_walks) and, a few of them, by the embedded
// model through the whole program; every answer is checked by ajv, which knows nothing of how it was made.
//
//   node schemas.mjs BUILD [COUNT [FIRST SEED]]    BUILD is the folder of schema_walks and tandem
import {execFile, spawn} from "node:child_process";
import {availableParallelism} from "node:os";
import path from "node:path";
import readline from "node:readline";
import {fileURLToPath} from "node:url";
import {isMainThread, parentPort, Worker, workerData} from "node:worker_threads";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import {SchemaMaker} from "./maker.mjs";

const walks = 24; // of each schema
const batch = 200; // schemas that share a validator, and a line of progress
const throughTheProgram = 1000; // one schema in so many
const mostTokens = 400;

function noFindings() {
  return {made: 0, accepted: 0, answers: 0, unfinished: 0, program: 0, refused: {}, wrong: []};
}

// One of several threads: takes batches of seeds until there are no more.
class Checker {
  constructor(build) {
    this.build = build;
    this.walker = spawn(path.join(build, "schema_walks"), [`${walks}`, "1"], {stdio: ["pipe", "pipe", "inherit"]});
    this.lines = readline.createInterface({input: this.walker.stdout})[Symbol.asyncIterator]();
  }

  async check(first, count) {
    const found = noFindings();
    // Most of its time goes into compiling, so that optimizing what is compiled does not pay.
    const ajv = addFormats(new Ajv({strict: false, multipleOfPrecision: 9, code: {optimize: false}}));
    const schemas = Array.from({length: count}, (_, i) => new SchemaMaker(first + i).make());
    for (const schema of schemas) this.walker.stdin.write(`${JSON.stringify(schema)}\n`);
    for (const [i, schema] of schemas.entries()) {
      const line = await this.lines.next();
      if (line.done) throw new Error(`schema_walks ended at seed ${first + i}: ${JSON.stringify(schema)}`);
      const reply = JSON.parse(line.value);
      ++found.made;
      if (reply.refused === undefined) {
        await this.judge(found, ajv, {seed: first + i, schema, ...reply});
      } else {
        const reason = reasonOf(reply.refused);
        found.refused[reason] = (found.refused[reason] ?? 0) + 1;
      }
    }
    return found;
  }

  async judge(found, ajv, {seed, schema, answers, unfinished}) {
    ++found.accepted;
    found.unfinished += unfinished;
    if (seed % throughTheProgram === 0) {
      const answer = await this.ask(JSON.stringify(schema), seed);
      ++found.program;
      if (answer.finish_reason === "stop") answers.push(answer.text);
      else ++found.unfinished;
    }
    found.answers += answers.length;
    const validate = ajv.compile(schema);
    const wrong = answers.find((answer) => !isValid(validate, answer));
    if (wrong === undefined) return;
    found.wrong.push({seed, schema: JSON.stringify(schema), answer: wrong, why: ajv.errorsText(validate.errors)});
  }

  ask(schema, seed) {
    const args = ["run", "tales", "Tell me about a fox.", "--grammar", schema, "--seed", `${seed}`, "-n",
      `${mostTokens}`, "--context", "2048", "--threads", "1", "--json", "--quiet"];
    return new Promise((resolve, reject) => {
      execFile(path.join(this.build, "tandem"), args, {maxBuffer: 1 << 26}, (error, stdout, stderr) =>
        error ? reject(new Error(`tandem, seed ${seed}: ${stderr.trim() || error.message}`)) : resolve(JSON.parse(stdout)));
    });
  }
}

function isValid(validate, answer) {
  try {
    return validate(JSON.parse(answer));
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}

// Without what is different in every schema: places, values and numbers.
function reasonOf(message) {
  const [, place, reason] = /^schema(?: at (.*?))?: (.*)$/.exec(message) ?? [null, "", message];
  const keyword = /keyword is not supported/.test(reason) ? `${place.split("/").at(-1)}: ` : "";
  return keyword + reason.replace(/'[^']*' is/, "... is").replace(/\d+ and \d+/, "i and j").slice(0, 100);
}

async function main(build, count, firstSeed) {
  const total = noFindings();
  let next = firstSeed;
  const add = (found) => {
    for (const name of ["made", "accepted", "answers", "unfinished", "program"]) total[name] += found[name];
    for (const [reason, times] of Object.entries(found.refused)) total.refused[reason] = (total.refused[reason] ?? 0) + times;
    for (const wrong of found.wrong) {
      console.log(`seed ${wrong.seed}: ${wrong.why}\n  ${wrong.schema}\n  ${wrong.answer}`);
      total.wrong.push(wrong);
    }
    process.stderr.write(`\r${total.made} of ${count} schemas, ${total.answers} answers, ${total.wrong.length} unsound `);
  };
  const thread = () => new Promise((resolve, reject) => {
    const worker = new Worker(fileURLToPath(import.meta.url), {workerData: {build}});
    const give = () => {
      if (next >= firstSeed + count) return worker.postMessage(null);
      const first = next;
      next = Math.min(next + batch, firstSeed + count);
      return worker.postMessage({first, count: next - first});
    };
    worker.on("message", (found) => {
      add(found);
      give();
    });
    worker.on("error", reject);
    worker.on("exit", resolve);
    give();
  });
  await Promise.all(Array.from({length: availableParallelism()}, thread));
  process.stderr.write("\n");
  report(total);
  process.exitCode = total.wrong.length === 0 && total.made === count && total.answers > 0 ? 0 : 1;
}

function report(total) {
  const row = (name, number) => console.log(`${String(number).padStart(9)}  ${name}`);
  row("schemas made", total.made);
  row("accepted", total.accepted);
  row("refused, because:", total.made - total.accepted);
  for (const [reason, times] of Object.entries(total.refused).sort((a, b) => b[1] - a[1])) row(`  ${reason}`, times);
  row("answers checked", total.answers);
  row("  schemas of them answered by the model through the program", total.program);
  row("answers that did not end (not checked)", total.unfinished);
  row("schemas with an answer that ajv refuses", total.wrong.length);
}

if (isMainThread) {
  const [build, count, seed] = process.argv.slice(2);
  await main(path.resolve(build), Number(count ?? 100_000), Number(seed ?? 0));
} else {
  const checker = new Checker(workerData.build);
  parentPort.on("message", async (work) => {
    if (work !== null) return parentPort.postMessage(await checker.check(work.first, work.count));
    checker.walker.stdin.end();
    return parentPort.close();
  });
}
