// A model that answers by a script, for tests of what becomes of an answer: whatever the prompt, it says the same pieces.
//
// It is a Llama of one layer that adds nothing. Every token has a direction of its own, and the matrix that makes the
// logits leads from each piece to the next, from the last to the token that stops, and from all others to the first.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const CERTAIN = 100; // of a logit: nothing else is ever drawn

// Byte-level BPE has a letter for each byte.
function byteLetters() {
  const own = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(own(b) ? b : next++));
}

function safetensors(tensors) {
  const header = {};
  let at = 0;
  for (const [name, { shape, data }] of Object.entries(tensors)) {
    header[name] = { dtype: "F32", shape, data_offsets: [at, (at += data.byteLength)] };
  }
  let text = JSON.stringify(header);
  text += " ".repeat((8 - (text.length % 8)) % 8);
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([size, Buffer.from(text), ...Object.values(tensors).map(({ data }) => Buffer.from(data.buffer))]);
}

function weights(vocab, dim, nextOf) {
  const matrix = (rows, cols) => ({ shape: [rows, cols], data: new Float32Array(rows * cols) });
  const ones = { shape: [dim], data: new Float32Array(dim).fill(1) };
  const embedding = matrix(vocab, dim);
  const head = matrix(vocab, dim);
  for (let token = 0; token < vocab; ++token) {
    embedding.data[token * dim + token] = 1;
    head.data[nextOf(token) * dim + token] = CERTAIN;
  }
  const layer = "model.layers.0.";
  return {
    "model.embed_tokens.weight": embedding,
    "lm_head.weight": head,
    "model.norm.weight": ones,
    [layer + "input_layernorm.weight"]: ones,
    [layer + "post_attention_layernorm.weight"]: ones,
    ...Object.fromEntries(["q", "k", "v"].map((name) => [`${layer}self_attn.${name}_proj.weight`, matrix(32, dim)])),
    [layer + "self_attn.o_proj.weight"]: matrix(dim, 32),
    [layer + "mlp.gate_proj.weight"]: matrix(32, dim),
    [layer + "mlp.up_proj.weight"]: matrix(32, dim),
    [layer + "mlp.down_proj.weight"]: matrix(dim, 32),
  };
}

// template: the chat template; controls: its control tokens; pieces: what the model says, each once and none of a single
// byte, control tokens among them; stop: the control token that ends the answer.
export async function writeScriptedModel(folder, { template, controls, pieces, stop }) {
  const special = [...new Set([...controls, stop])];
  const added = [...special, ...pieces.filter((piece) => !special.includes(piece))];
  if (new Set(pieces).size !== pieces.length) throw new Error("a piece comes twice");
  const idOf = new Map(added.map((content, i) => [content, 256 + i]));
  const script = [...pieces, stop].map((piece) => idOf.get(piece));
  const vocab = 256 + added.length;
  const dim = Math.ceil(vocab / 32) * 32;
  const follower = new Map(script.slice(0, -1).map((token, i) => [token, script[i + 1]]));
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };

  await mkdir(folder, { recursive: true });
  const write = (name, content) => writeFile(join(folder, name), Buffer.isBuffer(content) ? content : JSON.stringify(content));
  await write("config.json", {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    vocab_size: vocab,
    hidden_size: dim,
    intermediate_size: 32,
    num_hidden_layers: 1,
    num_attention_heads: 1,
    num_key_value_heads: 1,
    head_dim: 32,
    max_position_embeddings: 4096,
    rms_norm_eps: 1e-6,
    tie_word_embeddings: false,
    eos_token_id: idOf.get(stop),
  });
  await write("tokenizer.json", {
    version: "1.0",
    added_tokens: added.map((content) => ({ id: idOf.get(content), content, special: special.includes(content), ...flags })),
    normalizer: null,
    pre_tokenizer: byteLevel,
    post_processor: null,
    decoder: byteLevel,
    model: { type: "BPE", vocab: Object.fromEntries(byteLetters().map((letter, id) => [letter, id])), merges: [] },
  });
  await write("tokenizer_config.json", { eos_token: stop, chat_template: template });
  await write("model.safetensors", safetensors(weights(vocab, dim, (token) => follower.get(token) ?? script[0])));
}
