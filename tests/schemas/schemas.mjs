// Asks the embedded model for JSON that fits random schemas, through the whole program, and has every answer checked by
// ajv, which knows nothing of how it was made. An answer that did not end by itself counts as wrong.
import {execFile} from "node:child_process";
import {availableParallelism} from "node:os";
import path from "node:path";
import {fileURLToPath} from "node:url";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../.."); // of build/schemas
const count = Number(process.argv[2] ?? 1000);
const firstSeed = Number(process.argv[3] ?? 0);
const mostTokens = 2000;

// Small and well known (mulberry32): the same schemas everywhere.
function randomNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

// Lengths and numbers of things are bounded, so that every answer comes to its end.
class SchemaMaker {
  constructor(seed) {
    this.random = randomNumbers(seed);
    this.definitions = {};
  }

  below(end) {
    return Math.floor(this.random() * end);
  }

  chance(oneIn) {
    return this.below(oneIn) === 0;
  }

  choose(...options) {
    return options[this.below(options.length)];
  }

  make() {
    const schema = this.object(3);
    if (Object.keys(this.definitions).length > 0) schema.$defs = this.definitions;
    return schema;
  }

  value(depth) {
    const plain = ["boolean", "string", "integer", "number", "enumeration", "constant", "nullable", "pattern",
      "format"];
    const nested = ["array", "tuple", "object", "object", "map", "anyOf", "oneOf", "allOf", "reference"];
    return this[this.choose(...plain, ...(depth > 0 ? nested : []))](depth);
  }

  boolean() {
    return {type: "boolean"};
  }

  string() {
    const minLength = this.below(4);
    return {type: "string", ...(this.chance(2) && {minLength}), maxLength: minLength + this.below(40)};
  }

  integer() {
    const low = this.below(2000) - 1000;
    return {
      type: "integer",
      ...(this.chance(2) && {[this.choose("minimum", "exclusiveMinimum")]: low}),
      ...(this.chance(2) && {[this.choose("maximum", "exclusiveMaximum")]: low + 30 + this.below(500)}),
      ...(this.chance(4) && {multipleOf: 1 + this.below(12)}),
    };
  }

  number() {
    const low = this.below(2000) / 16 - 60;
    return {
      type: "number",
      ...(this.chance(2) && {[this.choose("minimum", "exclusiveMinimum")]: low}),
      ...(this.chance(2) && {[this.choose("maximum", "exclusiveMaximum")]: low + 0.5 + this.below(100)}),
      ...(this.chance(5) && {multipleOf: this.choose(0.01, 0.25, 0.5)}),
    };
  }

  enumeration() {
    return {enum: ["red", 'gr"een', 3, null, "ü \u{1F98A}", -1.5, true, [1, "x"], {a: null}].slice(this.below(6))};
  }

  constant() {
    return {const: this.choose("fixed", 42, null, ["a"], {b: [1.5]})};
  }

  nullable() {
    return {type: ["string", "null"], maxLength: 1 + this.below(20)};
  }

  pattern() {
    return {
      type: "string",
      pattern: this.choose("^[a-z]{1,9}[0-9]{2}$", "^(foo|ba[rz])(,(foo|ba[rz])){0,3}$",
        "^\\w{1,8}@\\w{2,9}\\.(org|com)$", "^\\d{4}-\\d{2}-\\d{2}$", "^[A-ZÄÖÜ]{2}.{0,5}$", "^a?b{0,4}c{1,3}d$",
        "^[^\\s\"]{3}$"),
    };
  }

  format() {
    return {type: "string", format: this.choose("date-time", "date", "time", "duration", "uuid", "ipv4", "ipv6")};
  }

  array(depth) {
    const minItems = this.below(3);
    return {
      type: "array",
      items: this.value(depth - 1),
      ...(this.chance(2) && {minItems}),
      maxItems: minItems + this.below(3),
    };
  }

  tuple(depth) {
    return {type: "array", prefixItems: [this.value(depth - 1), this.value(0)], items: false, minItems: this.below(3)};
  }

  object(depth) {
    const properties = {};
    for (let i = this.below(5); i >= 0; --i) {
      properties[this.chance(5) ? 'naïve "key"' : `${"abcdef"[i]}_name`] = this.value(depth - 1);
    }
    const required = Object.keys(properties).filter(() => this.chance(2));
    return {
      type: "object",
      properties,
      ...(required.length > 0 && {required}),
      ...(this.chance(2) && {additionalProperties: false}),
    };
  }

  map() {
    return {
      type: "object",
      additionalProperties: this.value(0),
      propertyNames: {pattern: "^[a-z]{1,8}$"},
      maxProperties: 3,
    };
  }

  anyOf(depth) {
    return {anyOf: [this.value(depth - 1), this.value(depth - 1)]};
  }

  // Told apart by the constant of their "kind".
  oneOf(depth) {
    const option = (kind) => ({
      type: "object",
      properties: {kind: {const: kind}, value: this.value(depth - 1)},
      required: this.choose(["kind"], ["kind", "value"]),
      additionalProperties: false,
    });
    return {oneOf: [option("one"), option("other")]};
  }

  allOf() {
    const part = (name) => ({type: "object", properties: {[name]: this.value(0)}, required: [name]});
    return {allOf: [part("first"), part("second")]};
  }

  reference(depth) {
    const name = this.choose("leaf", "tree");
    this.definitions[name] ??= name === "leaf" ? this.value(0) : {
      type: "object",
      properties: {
        n: {type: "integer", minimum: 0, maximum: 9},
        next: {anyOf: [{type: "null"}, {$ref: "#/$defs/tree"}]},
      },
      required: ["n", "next"],
      additionalProperties: false,
    };
    return {$ref: `#/$defs/${name}`};
  }
}

function ask(schema, seed) {
  const args = ["run", "tales", "Tell me about a fox.", "--grammar", JSON.stringify(schema), "--seed", `${seed}`, "-n",
    `${mostTokens}`, "--context", "4096", "--threads", "1", "--json", "--quiet"];
  return new Promise((resolve) => {
    execFile(path.join(root, "build/tandem"), args, {maxBuffer: 1 << 26}, (error, stdout, stderr) =>
      resolve(error ? {failed: stderr.trim() || error.message} : JSON.parse(stdout)));
  });
}

// What is wrong with the answer, or nothing.
async function check(seed) {
  const schema = new SchemaMaker(seed).make();
  const ajv = addFormats(new Ajv({strict: false, allErrors: true, multipleOfPrecision: 9}));
  const validate = ajv.compile(schema);
  const answer = await ask(schema, seed);
  tokens += answer.answer_tokens ?? 0;
  const wrong = (what) => ({kind: what, text: `${JSON.stringify(schema)}\n  ${answer.failed ?? answer.text}`});
  if (answer.failed) return wrong("refused");
  if (answer.finish_reason !== "stop") return wrong(`ended with ${answer.finish_reason}`);
  try {
    const value = JSON.parse(answer.text);
    return validate(value) ? null : wrong(`not valid (${ajv.errorsText(validate.errors)})`);
  } catch (error) {
    return wrong(`no JSON (${error.message})`);
  }
}

let next = firstSeed;
let tokens = 0;
let valid = 0;
async function work() {
  while (next < firstSeed + count) {
    const seed = next++;
    const wrong = await check(seed);
    if (wrong) console.log(`seed ${seed}: ${wrong.kind}\n  ${wrong.text}`);
    else ++valid;
  }
}
await Promise.all(Array.from({length: availableParallelism()}, work));
console.log(`${valid} of ${count} answers are valid (${tokens} tokens)`);
process.exitCode = valid === count ? 0 : 1;
