// Random JSON Schemas (2020-12) that mix keywords which speak about each other. Names, numbers and texts are few and
// short, so that the parts of a schema meet in the same values.

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

const kinds = ["object", "array", "number", "string"];
const names = ["a", "b", "c", 'd "é"'];

export class SchemaMaker {
  constructor(seed) {
    this.random = randomNumbers(seed);
    this.seed = seed;
    this.folder = `https://example.com/${seed}/`;
    this.resources = 0;
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

  some(list, oneIn = 2) {
    return list.filter(() => this.chance(oneIn));
  }

  make() {
    this.root = {id: this.chance(3) ? `${this.folder}root.json` : "", definitions: {}};
    this.scope = this.root; // the resource that we are in
    const schema = {...this.schema(3)}; // of a boolean: an empty one
    this.finish(schema, this.root);
    return schema;
  }

  finish(schema, scope) {
    if (scope.id !== "") schema.$id = scope.id;
    if (Object.keys(scope.definitions).length > 0) schema.$defs = scope.definitions;
  }

  // One that speaks about values of a kind, with one or several groups of keywords side by side.
  schema(depth, kind = this.choose(...kinds, "other")) {
    if (kind === "other") return this.other(depth);
    const schema = {};
    if (this.chance(2)) schema.type = this.chance(4) ? [kind, this.choose("null", "boolean")] : kind;
    if (!this.chance(4)) Object.assign(schema, this[kind](depth));
    if (depth > 0) {
      for (const group of ["anyOf", "oneOf", "allOf", "reference"]) {
        if (this.chance(5)) Object.assign(schema, this[group](depth - 1, kind));
      }
    }
    if (this.chance(12)) Object.assign(schema, this.values(kind));
    if (this.chance(80)) Object.assign(schema, this.unsupported(kind));
    return schema;
  }

  other(depth) {
    switch (this.below(depth > 0 ? 8 : 5)) {
      case 0:
        return {type: this.choose("boolean", "null", "integer")};
      case 1:
        return this.chance(4) ? this.chance(2) : this.values(this.choose(...kinds));
      case 2:
        return this.values(this.choose(...kinds));
      case 3:
        return this.pattern();
      case 4:
        return {type: "string", format: this.choose("date-time", "date", "time", "duration", "uuid", "ipv4", "ipv6",
          "email", "hostname", "uri")};
      default:
        return this[this.choose("anyOf", "oneOf", "reference")](depth - 1, this.choose(...kinds));
    }
  }

  number() {
    const low = this.below(7) + (this.chance(6) ? 0.5 : 0);
    return {
      ...(this.chance(3) && {type: this.choose("number", "integer")}),
      ...(this.chance(2) && {[this.choose("minimum", "minimum", "exclusiveMinimum")]: low}),
      ...(this.chance(2) && {[this.choose("maximum", "maximum", "exclusiveMaximum")]: low + this.below(4)}),
      ...(this.chance(20) && {format: this.choose("int32", "int64", "double")}),
      ...(this.chance(12) && {multipleOf: this.choose(2, 3, 0.5, 0.25)}),
    };
  }

  string() {
    const minLength = this.below(3);
    return {
      ...(this.chance(2) && {minLength}),
      ...(this.chance(2) && {maxLength: minLength + this.below(3)}),
      ...(this.chance(10) && this.pattern()),
    };
  }

  pattern() {
    return {
      type: "string",
      pattern: this.choose("^[a-z]{1,9}[0-9]{2}$", "^(foo|ba[rz])(,(foo|ba[rz])){0,3}$", "^a", "b", "^[ab]{0,3}$",
        "^\\w{1,8}@\\w{2,9}\\.(org|com)$", "^\\d{4}-\\d{2}$", "^[A-ZÄÖÜ]{2}.{0,5}$", "^[^\\s\"]{3}$"),
    };
  }

  object(depth) {
    const schema = {};
    if (!this.chance(4)) {
      schema.properties = {};
      for (const name of this.some(names.slice(0, this.chance(8) ? 4 : 3))) {
        schema.properties[name] = this.chance(15) ? this.chance(2) : this.schema(depth - 1);
      }
    }
    if (this.chance(2)) {
      const required = this.some(names.slice(0, 3), 3);
      if (required.length > 0) schema.required = required;
    }
    if (this.chance(3)) schema.additionalProperties = this.choose(false, false, true, this.schema(0), this.schema(0));
    if (this.chance(15)) schema.propertyNames = this.choose({maxLength: 1}, {pattern: "^[ab]{1,2}$"}, {enum: ["a", "b"]});
    if (this.chance(15)) schema.minProperties = this.below(3);
    if (this.chance(12)) schema.maxProperties = this.below(4);
    return schema;
  }

  array(depth) {
    const minItems = this.below(3);
    return {
      ...(this.chance(2) && {prefixItems: Array.from({length: 1 + this.below(2)}, () => this.schema(depth - 1))}),
      ...(this.chance(2) && {items: this.chance(4) ? this.chance(3) : this.schema(depth - 1)}),
      ...(this.chance(3) && {minItems}),
      ...(this.chance(3) && {maxItems: minItems + this.below(3)}),
      ...(this.chance(20) && {uniqueItems: true}),
    };
  }

  // Objects that differ in the order of their keys are the same value.
  constants(kind) {
    return {
      number: [0, 1, 2, 3, 4, 5, 6, 1.5, 2.0],
      string: ["", "a", "b", "ab", "abc", 'é"\n'],
      array: [[], [1], [1, 2], ["a"], [{a: 1, b: 2}], [null]],
      object: [{}, {a: 1}, {a: 1, b: 2}, {b: 2, a: 1}, {a: "a"}, {b: [1]}, {a: {b: 1, c: 2}}, {a: {c: 2, b: 1}}],
    }[kind];
  }

  values(kind) {
    const all = [...this.constants(kind), ...(this.chance(3) ? [null, true, 7] : [])];
    if (this.chance(2)) return {const: this.choose(...all)};
    // Beside each other in an enum they would be the same value twice, which a schema must not have.
    const list = this.some(all).filter((value, i, kept) => !kept.slice(0, i).some((before) => same(before, value)));
    return list.length > 0 ? {enum: list} : {const: all[0]};
  }

  unsupported(kind) {
    return this.choose({
      object: {patternProperties: {"^a": this.schema(0)}},
      array: {contains: this.schema(0)},
      number: {not: this.schema(0, "number")},
      string: {if: this.schema(0, "string"), then: this.schema(0, "string")},
    }[kind], {dependentRequired: {a: ["b"]}}, {unevaluatedProperties: false}, {unevaluatedItems: false});
  }

  options(depth, kind) {
    return Array.from({length: 2 + this.below(2)}, () => this.schema(depth, this.chance(5) ? undefined : kind));
  }

  anyOf(depth, kind) {
    return {anyOf: this.options(depth, kind)};
  }

  allOf(depth, kind) {
    return {allOf: this.options(depth, kind).slice(this.below(2))};
  }

  // Options that exclude each other in some way, most of the time; then each of them is written in another way.
  oneOf(depth, kind) {
    return {oneOf: this.exclusive(depth, kind).map((option) => this.wrapped(option, depth, kind))};
  }

  exclusive(depth, kind) {
    switch (this.below(6)) {
      case 0:
        return this.options(depth, kind);
      case 1:
        return ["object", "array", "string"].map((type) => ({type, ...(this.chance(2) && this[type](depth))}));
      case 2:
        return kind === "object" ? this.requiring(depth) : this.parted(kind);
      case 3:
        return this.parted(kind);
      default:
        return kind === "object" ? this.tagged(depth) : this.parted(kind);
    }
  }

  requiring(depth) {
    return names.slice(0, 2 + this.below(2)).map((name) => ({
      ...(this.chance(3) && {properties: {[name]: this.schema(depth - 1)}}),
      ...(this.chance(5) && {additionalProperties: this.choose(false, true, this.schema(0))}),
      required: [name],
    }));
  }

  tagged(depth) {
    const tags = this.choose([{const: "x"}, {const: "y"}], [{const: {a: 1, b: 2}}, {const: {b: 2, a: 1}}],
      [{enum: [1, 2]}, {enum: [3, 4]}], [{maximum: 3}, {minimum: 3}], [{type: "string"}, {type: "number"}],
      [{anyOf: [{const: 1}, {const: 2}]}, {const: 3}], [{anyOf: [{const: 1}, {const: 2}]}, {anyOf: [{const: 2}]}]);
    return tags.map((tag) => ({
      ...(this.chance(2) && {type: "object"}),
      properties: {a: tag, ...(this.chance(2) && {b: this.schema(depth - 1)})},
      ...(!this.chance(6) && {required: this.choose(["a"], ["a", "b"])}),
      ...(this.chance(4) && {additionalProperties: this.choose(false, true)}),
    }));
  }

  parted(kind) {
    const at = this.below(5);
    const type = this.chance(2) ? {type: kind} : {};
    const list = this.constants(kind);
    return this.choose({
      number: [{...type, maximum: at}, {...type, [this.choose("minimum", "exclusiveMinimum")]: at + this.below(2)}],
      string: [{...type, maxLength: at}, {...type, minLength: at + 1}],
      array: [{...type, maxItems: at}, {...type, minItems: at + 1}],
      object: [{...type, maxProperties: at}, {...type, required: ["a"]}],
    }[kind], [{const: list[at]}, {const: list[at + 1]}], [{enum: list.slice(0, 2)}, {enum: list.slice(2, 4)}],
    [{const: list[at]}, this.schema(0, kind)]);
  }

  // The same option and more, as schemas write it.
  wrapped(option, depth, kind) {
    switch (this.below(9)) {
      case 0:
        return {allOf: [option]};
      case 1:
        return {allOf: [option, this.schema(0, kind)]};
      case 2:
        return {anyOf: [option, this.schema(0, kind)]};
      case 3:
        return this.defined(option);
      case 4:
        return {...this.defined(option), ...this.schema(0, kind)};
      case 5:
        return {...this.schema(Math.max(depth, 0), kind), ...option};
      default:
        return option;
    }
  }

  // A $ref, by itself or beside what the caller has: to a definition that is complete, or to a new one.
  reference(depth, kind) {
    const known = Object.keys(this.scope.definitions);
    if (known.length > 0 && this.chance(3)) return {$ref: this.pointer(this.scope, this.choose(...known))};
    const outer = Object.keys(this.root.definitions);
    if (this.scope !== this.root && this.root.id !== "" && outer.length > 0 && this.chance(2)) {
      return {$ref: `${this.choose("root.json", this.root.id)}${this.pointer(this.root, this.choose(...outer))}`};
    }
    if (this.chance(12)) return this.defined(this.tree());
    if (this.scope === this.root && this.resources < 2 && this.chance(3)) return this.resource(depth, kind);
    return this.defined(this.schema(depth, kind));
  }

  pointer(scope, name) {
    const inner = scope.definitions[name].$defs;
    return `#/$defs/${name}${inner && this.chance(3) ? `/$defs/${this.choose(...Object.keys(inner))}` : ""}`;
  }

  defined(schema) {
    const name = `d${Object.keys(this.scope.definitions).length}`;
    const definition = typeof schema === "object" && this.chance(6) ?
      {...schema, $defs: {d0: this.schema(0)}} : schema;
    this.scope.definitions[name] = definition;
    if (typeof schema === "object" && this.chance(6)) {
      this.scope.definitions[name] = {...definition, $anchor: name};
      return {$ref: `#${name}`};
    }
    return {$ref: `#/$defs/${name}`};
  }

  // A definition with an $id, and with definitions of its own that have the names of those around it.
  resource(depth, kind) {
    const file = `part${this.resources++}.json`;
    const scope = {id: this.root.id === "" ? this.folder + file : this.choose(file, this.folder + file), definitions: {}};
    this.scope = scope;
    const schema = this.schema(depth, kind === undefined ? "object" : kind);
    const body = {allOf: [schema, this.defined(this.schema(0, kind))]};
    this.finish(body, scope);
    this.scope = this.root;
    const name = `d${Object.keys(this.root.definitions).length}`;
    this.root.definitions[name] = body;
    const pointer = this.chance(3) ? `#/$defs/${this.choose(...Object.keys(scope.definitions))}` : "";
    return {$ref: this.choose(`#/$defs/${name}`, (this.root.id === "" ? this.folder + file : file) + pointer)};
  }

  tree() {
    const name = `d${Object.keys(this.scope.definitions).length}`;
    return {
      type: "object",
      properties: {
        a: {type: "integer", minimum: 0, maximum: 9},
        b: {anyOf: [{type: "null"}, {$ref: `#/$defs/${name}`}]},
      },
      required: this.choose(["a", "b"], ["a"]),
      additionalProperties: false,
    };
  }
}

function same(a, b) {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b;
  const keys = Object.keys(a);
  return Array.isArray(a) === Array.isArray(b) && keys.length === Object.keys(b).length &&
    keys.every((key) => key in b && same(a[key], b[key]));
}
