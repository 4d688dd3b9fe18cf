"""The forward pass of the families in numpy, written from the formulas and apart from Tandem's own code.

    python3 reference.py check DIR...    compares it with the logits that transformers gave for a golden model
    python3 reference.py int8 DIR...     how far logits are off when layers round to int8 where the NPU does
    python3 reference.py make FOLDER     writes tiny models with settings that those do not have, and their logits
"""

import json
import math
import pathlib
import struct
import sys

import numpy as np


def read_model(folder):
    config = json.loads((folder / "config.json").read_text())
    raw = (folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    weights = {}
    for name, info in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = info["data_offsets"]
            data = np.frombuffer(raw[8 + size + begin:8 + size + end], dtype="<f4")
            weights[name.removeprefix("model.")] = data.reshape(info["shape"]).astype(np.float64)
    return config, weights


def write_model(folder, config, weights):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    header, data = {}, b""
    for name in sorted(weights):
        raw = weights[name].astype("<f4").tobytes()
        key = name if name.startswith("lm_head") else "model." + name
        header[key] = {"dtype": "F32", "shape": list(weights[name].shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def rope_angles(rope, dim, positions, context):
    """Angles [positions, dim / 2] and the factor on cosine and sine."""
    frequency = rope["rope_theta"] ** (-np.arange(0, dim, 2) / dim)
    kind, factor, magnitude = rope.get("rope_type", "default"), rope.get("factor", 1.0), 1.0
    original = rope.get("original_max_position_embeddings", context)
    if kind == "linear":
        frequency = frequency / factor
    elif kind == "llama3":
        wavelength = 2 * math.pi / frequency
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = (original / wavelength - low) / (high - low)
        middle = (1 - smooth) * frequency / factor + smooth * frequency
        frequency = np.where(wavelength > original / low, frequency / factor,
                             np.where(wavelength < original / high, frequency, middle))
    elif kind == "yarn":
        def dimension(turns):
            return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(rope["rope_theta"]))
        low = max(math.floor(dimension(rope.get("beta_fast", 32))), 0)
        high = min(math.ceil(dimension(rope.get("beta_slow", 1))), dim - 1)
        ramp = np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
        frequency = frequency / factor * ramp + frequency * (1 - ramp)
        magnitude = rope.get("attention_factor") or 0.1 * math.log(factor) + 1
    elif kind != "default":
        raise ValueError(kind)
    return np.outer(positions, frequency), magnitude


def turn(x, angles, magnitude):
    """x: [tokens, heads, head_dim]."""
    half = angles.shape[1]
    cos, sin = np.cos(angles)[:, None] * magnitude, np.sin(angles)[:, None] * magnitude
    a, b = x[..., :half], x[..., half:2 * half]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., 2 * half:]], axis=-1)


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def activate(x, name):
    if name == "silu":
        return x / (1 + np.exp(-x))
    assert name == "gelu_pytorch_tanh"
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def softcap(x, cap):
    return cap * np.tanh(x / cap) if cap else x


class Reference:
    def __init__(self, config, weights):
        self.c, self.w = config, weights
        self.gemma = config["model_type"].startswith("gemma3")
        self.heads = config["num_attention_heads"]
        self.kv_heads = config["num_key_value_heads"]
        self.head_dim = config.get("head_dim") or config["hidden_size"] // self.heads
        self.eps = config["rms_norm_eps"]

    def rounded(self, x):
        """What a layer multiplies."""
        return x

    def rounded_shares(self, x):
        """What values are weighted with, of which the largest is 1."""
        return x

    def linear(self, name, x):
        y = self.rounded(x) @ self.rounded(self.w[name + ".weight"]).T
        bias = self.w.get(name + ".bias")
        return y if bias is None else y + bias

    def norm(self, name, x):
        return rms_norm(x, self.w[name + ".weight"] + (1 if self.gemma else 0), self.eps)

    def window(self, layer):
        kind = self.c["model_type"]
        if kind == "mistral":
            return self.c["sliding_window"]
        if "layer_types" in self.c:
            return self.c["sliding_window"] if self.c["layer_types"][layer] == "sliding_attention" else None
        return None

    def rope(self, layer):
        parameters = self.c["rope_parameters"]
        return parameters[self.c["layer_types"][layer]] if self.gemma else parameters

    def attention(self, x, layer):
        p = f"layers.{layer}.self_attn."
        n = len(x)
        q = self.linear(p + "q_proj", x).reshape(n, self.heads, self.head_dim)
        k = self.linear(p + "k_proj", x).reshape(n, self.kv_heads, self.head_dim)
        v = self.linear(p + "v_proj", x).reshape(n, self.kv_heads, self.head_dim)
        if p + "q_norm.weight" in self.w:
            q, k = self.norm(p + "q_norm", q), self.norm(p + "k_norm", k)
        angles = rope_angles(self.rope(layer), self.head_dim, np.arange(n), self.c["max_position_embeddings"])
        q, k, v = self.rounded(turn(q, *angles)), self.rounded(turn(k, *angles)), self.rounded(v)
        group = self.heads // self.kv_heads
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        scale = (self.c["query_pre_attn_scalar"] if self.gemma else self.head_dim) ** -0.5
        scores = softcap(np.einsum("qhd,khd->hqk", q, k) * scale, self.c.get("attn_logit_softcapping"))
        distance = np.arange(n)[:, None] - np.arange(n)[None]
        seen = distance >= 0
        if self.window(layer):
            seen &= distance < self.window(layer)
        scores = np.where(seen, scores, -np.inf)
        scores = self.rounded_shares(np.exp(scores - scores.max(axis=-1, keepdims=True)))
        scores /= scores.sum(axis=-1, keepdims=True)
        return self.linear(p + "o_proj", np.einsum("hqk,khd->qhd", scores, v).reshape(n, -1))

    def feed_forward(self, x, layer):
        p = f"layers.{layer}.mlp."
        act = self.c["hidden_activation" if self.gemma else "hidden_act"]
        return self.linear(p + "down_proj", activate(self.linear(p + "gate_proj", x), act) * self.linear(p + "up_proj", x))

    def logits(self, tokens):
        x = self.w["embed_tokens.weight"][tokens]
        if self.gemma:
            x = x * math.sqrt(self.c["hidden_size"])
        for i in range(self.c["num_hidden_layers"]):
            p = f"layers.{i}."
            a = self.attention(self.norm(p + "input_layernorm", x), i)
            if self.gemma:
                x = x + self.norm(p + "post_attention_layernorm", a)
                f = self.feed_forward(self.norm(p + "pre_feedforward_layernorm", x), i)
                x = x + self.norm(p + "post_feedforward_layernorm", f)
            else:
                x = x + a
                x = x + self.feed_forward(self.norm(p + "post_attention_layernorm", x), i)
        output = self.w["embed_tokens.weight" if self.c["tie_word_embeddings"] else "lm_head.weight"]
        return softcap(self.norm("norm", x) @ output.T, self.c.get("final_logit_softcapping"))

    def greedy(self, prompt, count):
        tokens = list(prompt)
        for _ in range(count):
            tokens.append(int(self.logits(tokens)[-1].argmax()))
        return tokens[len(prompt):]


class Int8Reference(Reference):
    def rounded(self, x):
        step = np.abs(x).max(axis=-1, keepdims=True) / 127
        return np.rint(x / np.where(step > 0, step, 1)) * step

    def rounded_shares(self, x):
        return np.rint(x * 255) / 255


def round_to_int8(folder):
    config, weights = read_model(folder)
    tokens = [(i * 37 + 11) % config["vocab_size"] for i in range(40)]  # those of hybrid_test.cpp
    logits = Reference(config, weights).logits(tokens)
    error = Int8Reference(config, weights).logits(tokens) - logits
    mean = math.sqrt((error ** 2).sum() / (logits ** 2).sum())
    print(f"{folder.name}: {mean:.4f}, largest {np.abs(error).max() / np.abs(logits).max():.4f}")


def check(folder):
    expected = json.loads((folder / "expected.json").read_text())
    logits = np.fromfile(folder / "logits.f32", dtype="<f4").reshape(expected["shape"])
    reference = Reference(*read_model(folder))
    error = np.abs(reference.logits(expected["tokens"]) - logits).max() / np.abs(logits).max()
    same = reference.greedy(expected["greedy_prompt"], len(expected["greedy"])) == expected["greedy"]
    print(f"{folder.name}: relative error {error:.2e}, greedy {'equal' if same else 'DIFFERS'}")
    return error < 1e-5 and same


BASE = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_hidden_layers": 3, "vocab_size": 96, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
        "hidden_act": "silu", "tie_word_embeddings": False, "dtype": "float32",
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}

VARIANTS = {
    "llama-bias": {"model_type": "llama", "attention_bias": True, "mlp_bias": True},
    "llama-yarn": {"model_type": "llama", "head_dim": 16, "rope_parameters": YARN},
    "llama-linear": {"model_type": "llama", "tie_word_embeddings": True,
                     "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}},
    "mistral-full": {"model_type": "mistral", "sliding_window": None, "head_dim": 12},
    "qwen2-window": {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1,
                     "layer_types": ["full_attention", "sliding_attention", "sliding_attention"]},
    "qwen3-bias-yarn": {"model_type": "qwen3", "attention_bias": True, "head_dim": 16,
                        "rope_parameters": YARN | {"attention_factor": 1.2, "beta_fast": 16.0, "beta_slow": 2.0}},
    "gemma3-softcap": {"model_type": "gemma3_text", "hidden_activation": "gelu_pytorch_tanh", "head_dim": 16,
                       "query_pre_attn_scalar": 20, "tie_word_embeddings": True, "sliding_window": 5,
                       "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0,
                       "layer_types": ["full_attention", "sliding_attention", "full_attention"],
                       "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 500000.0},
                                           "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}}},
}


def random_weights(c, random):
    dim, ffn, heads = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"]
    head_dim = c.get("head_dim") or dim // heads
    q_dim, kv_dim = heads * head_dim, c["num_key_value_heads"] * head_dim
    gemma, kind = c["model_type"].startswith("gemma3"), c["model_type"]
    weights = {}

    def matrix(name, rows, cols, bias=False):
        weights[name + ".weight"] = random.standard_normal((rows, cols)) * 1.5 / math.sqrt(cols)
        if bias:
            weights[name + ".bias"] = random.standard_normal(rows) * 0.5

    def norm(name, count):
        weights[name + ".weight"] = random.standard_normal(count) * 0.2 + (0 if gemma else 1)

    matrix("embed_tokens", c["vocab_size"], dim)
    if not c["tie_word_embeddings"]:
        matrix("lm_head", c["vocab_size"], dim)
    norm("norm", dim)
    for i in range(c["num_hidden_layers"]):
        p = f"layers.{i}."
        bias = c.get("attention_bias", False)
        matrix(p + "self_attn.q_proj", q_dim, dim, bias or kind == "qwen2")
        matrix(p + "self_attn.k_proj", kv_dim, dim, bias or kind == "qwen2")
        matrix(p + "self_attn.v_proj", kv_dim, dim, bias or kind == "qwen2")
        matrix(p + "self_attn.o_proj", dim, q_dim, bias)
        for name, rows, cols in (("gate", ffn, dim), ("up", ffn, dim), ("down", dim, ffn)):
            matrix(f"{p}mlp.{name}_proj", rows, cols, c.get("mlp_bias", False))
        norms = ["input", "post_attention"] + (["pre_feedforward", "post_feedforward"] if gemma else [])
        for name in norms:
            norm(f"{p}{name}_layernorm", dim)
        if gemma or kind == "qwen3":
            norm(p + "self_attn.q_norm", head_dim)
            norm(p + "self_attn.k_norm", head_dim)
    return {name: value.astype(np.float32).astype(np.float64) for name, value in weights.items()}


def make(folder):
    for seed, (name, changes) in enumerate(VARIANTS.items()):
        random = np.random.default_rng(seed)
        config = BASE | changes
        weights = random_weights(config, random)
        write_model(folder / name, config, weights)
        reference = Reference(config, weights)
        tokens = [int(t) for t in random.integers(0, config["vocab_size"], 32)]
        logits = reference.logits(tokens)
        logits.astype("<f4").tofile(folder / name / "logits.f32")
        expected = {"tokens": tokens, "greedy_prompt": tokens[:8], "greedy": reference.greedy(tokens[:8], 16),
                    "shape": list(logits.shape)}
        (folder / name / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "check":
        sys.exit(0 if all([check(pathlib.Path(folder)) for folder in sys.argv[2:]]) else 1)
    if len(sys.argv) > 2 and sys.argv[1] == "int8":
        for argument in sys.argv[2:]:
            round_to_int8(pathlib.Path(argument))
        sys.exit()
    if len(sys.argv) == 3 and sys.argv[1] == "make":
        sys.exit(make(pathlib.Path(sys.argv[2])))
    sys.exit(__doc__)
