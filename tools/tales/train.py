#!/usr/bin/env python3
"""Makes the embedded model "tales" from nothing: text, vocabulary, training, evaluation, in one command.

Processes write ever new text while the model learns from it, so no token need be seen twice. Torch is imported late:
the writing processes are forked before that and stay small.
"""

import argparse
import json
import math
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import traceback

import numpy as np

import tokens

START = time.monotonic()
LENGTH = 512
WINDOW = 128
PATTERN = 6  # one layer in six sees everything, as in every Gemma 3: some readers of GGUF know no other pattern
ROWS_PER_SHARD = 1024
PROMPT_WEIGHT = 0.1
PEAK_RATE = 2e-3

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{%- if messages[0]['role'] == 'system' -%}"
    "{%- set system = messages[0]['content'] + '\\n\\n' -%}{%- set turns = messages[1:] -%}"
    "{%- else -%}"
    "{%- set system = '' -%}{%- set turns = messages -%}"
    "{%- endif -%}"
    "{%- for message in turns -%}"
    "{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\\n' }}"
    "{{ (system if loop.first else '') + message['content'] | trim }}"
    "{{ '<end_of_turn>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}"
)


def elapsed():
    return time.monotonic() - START


def say(text):
    print(f"[{elapsed():6.1f} s] {text}", flush=True)


class ShardStream:
    """Hands out shards in the order of their number; repeats old ones only while the writers lag behind."""

    def __init__(self, vocabulary, workers, seed):
        self.folder = tempfile.mkdtemp(prefix="tales-")
        self.rng = np.random.default_rng(seed)
        self.loaded, self.repeats = [], 0
        context = multiprocessing.get_context("fork")
        arguments = [(vocabulary, self.folder, w, workers, 1 << 20, (ROWS_PER_SHARD, LENGTH)) for w in range(workers)]
        self.workers = [context.Process(target=tokens.write_shards, args=a, daemon=True) for a in arguments]
        for worker in self.workers:
            worker.start()

    def next(self):
        path = tokens.shard_path(self.folder, len(self.loaded))
        while not os.path.exists(path) and not self.loaded:
            if not all(worker.is_alive() for worker in self.workers):
                raise RuntimeError("a text writer died before its first shard; run generate.py to see why")
            time.sleep(0.05)
        if os.path.exists(path):
            self.loaded.append(np.load(path))
            os.remove(path)
            return self.loaded[-1]
        self.repeats += 1
        return self.loaded[self.rng.integers(len(self.loaded))]

    def close(self):
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.join()
        shutil.rmtree(self.folder, ignore_errors=True)


def build_model(end_of_turn):
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    layer_types = (["sliding_attention"] * (PATTERN - 1) + ["full_attention"]) * 2
    config = Gemma3TextConfig(
        vocab_size=tokens.VOCAB, hidden_size=256, intermediate_size=512, num_hidden_layers=len(layer_types),
        num_attention_heads=4, num_key_value_heads=2, head_dim=64, query_pre_attn_scalar=64, sliding_window=WINDOW,
        layer_types=layer_types, max_position_embeddings=1024, rms_norm_eps=1e-6, hidden_activation="gelu_pytorch_tanh",
        rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 1e6},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}},
        tie_word_embeddings=True, pad_token_id=tokens.PAD, eos_token_id=tokens.EOS, bos_token_id=tokens.BOS,
        attention_dropout=0.0)
    config._attn_implementation = "sdpa"
    model = Gemma3ForCausalLM(config)
    model.generation_config.eos_token_id = [tokens.EOS, end_of_turn]
    return model


def attention_masks(ids):
    """True where a token may look: back, within its own document, and for sliding layers within the window."""
    import torch

    document = (ids == tokens.BOS).cumsum(1)
    position = torch.arange(ids.shape[1], device=ids.device)
    distance = position[:, None] - position[None, :]
    full = (document[:, :, None] == document[:, None, :]) & (distance >= 0)
    sliding = full & (distance < WINDOW)
    return {"full_attention": full[:, None], "sliding_attention": sliding[:, None]}


def mean_loss(logits, ids, is_prompt, prompt_weight):
    import torch.nn.functional as F

    target = ids[:, 1:]
    loss = F.cross_entropy(logits[:, :-1].float().flatten(0, 1), target.flatten(), reduction="none")
    weight = 1.0 - (1.0 - prompt_weight) * is_prompt[:, 1:].float()
    weight = (weight * (target != tokens.PAD) * (target != tokens.BOS)).flatten()
    return (loss * weight).sum() / weight.sum()


class Trainer:
    def __init__(self, model, batch_rows, use_compile):
        import torch

        self.torch, self.model, self.batch_rows = torch, model, batch_rows
        self.use_masks, self.loss_function = True, mean_loss
        matrices = [p for p in model.parameters() if p.dim() >= 2]
        vectors = [p for p in model.parameters() if p.dim() < 2]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}],
            lr=PEAK_RATE, betas=(0.9, 0.95), eps=1e-8, fused=True)
        self.use_compile = use_compile

    def _compile(self):
        """Compiles one layer and the loss rather than the whole model: a few seconds instead of a minute."""
        for name in ("recompile_limit", "cache_size_limit"):
            if hasattr(self.torch._dynamo.config, name):
                setattr(self.torch._dynamo.config, name, 64)
        for layer in self.model.model.layers:
            layer.compile(dynamic=False)
        self.loss_function = self.torch.compile(mean_loss, dynamic=False)

    def _no_compile(self):
        for layer in self.model.model.layers:
            layer._compiled_call_impl = None
        self.loss_function = mean_loss

    def loss(self, rows, prompt_weight=PROMPT_WEIGHT):
        torch = self.torch
        is_prompt = (rows & tokens.PROMPT_BIT) != 0
        ids = (rows & (tokens.PROMPT_BIT - 1)).long()
        masks = attention_masks(ids) if self.use_masks else None
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = self.model(input_ids=ids, attention_mask=masks, use_cache=False).logits
            return self.loss_function(logits, ids, is_prompt, prompt_weight)

    def warm_up(self, rows):
        """Finds out what works with the libraries at hand, from the best way to the plainest, and says which."""
        ways = [(compiled, masks) for compiled in (True, False) for masks in (True, False)
                if self.use_compile or not compiled]
        for compiled, self.use_masks in ways:
            name = f"{'compiled' if compiled else 'plain'}, {'with' if self.use_masks else 'without'} document masks"
            self._compile() if compiled else self._no_compile()
            try:
                for _ in range(2):
                    self.loss(rows).backward()
                self.optimizer.zero_grad(set_to_none=True)
                self.torch.cuda.synchronize()
                say(f"first steps, {name}: fine")
                return name
            except Exception:
                self.optimizer.zero_grad(set_to_none=True)
                say(f"first steps, {name}: failed:\n{traceback.format_exc(limit=-3)}")
        raise RuntimeError("no way of training works on this machine")

    def held_out_loss(self, held_out):
        # With gradients on, although none are needed: the compiled code stays the same.
        losses = [float(self.loss(rows, 0.0).detach()) for rows in held_out.split(self.batch_rows)]
        return sum(losses) / len(losses)

    def step(self, rows, rate):
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss = self.loss(rows)
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def learning_rate(progress):
    """Warm-up, a long plateau, and a fall to nothing over the last part of the time."""
    if progress < 0.02:
        return PEAK_RATE * max(progress, 0.0005) / 0.02
    return PEAK_RATE * min(1.0, max(0.0, (1.0 - progress) / 0.45))


def to_device(rows):
    import torch

    return torch.from_numpy(rows.astype(np.int32)).to("cuda", non_blocking=True)


def train(trainer, stream, held_out, deadline):
    """Trains until the deadline (seconds since the start) and returns the history of losses."""
    begin, last_say = elapsed(), elapsed()
    steps = seen = said_at = 0
    history = []
    while elapsed() < deadline:
        shard = to_device(stream.next())
        for rows in shard.split(trainer.batch_rows):
            progress = (elapsed() - begin) / (deadline - begin)
            loss = trainer.step(rows, learning_rate(progress))
            steps, seen = steps + 1, seen + rows.numel()
        value = float(loss)  # waits for the device, so that the clock above tells the truth
        if not math.isfinite(value):
            raise RuntimeError(f"the loss became {value} after {steps} steps; lower PEAK_RATE")
        if elapsed() - last_say > 15:
            rate = (seen - said_at) / (elapsed() - last_say)
            test = trainer.held_out_loss(held_out)
            history.append({"seconds": round(elapsed(), 1), "tokens": seen, "loss": value, "held_out_loss": test})
            say(f"step {steps}  tokens {seen / 1e6:.1f} M  {rate / 1e6:.2f} M/s  loss {value:.4f}  "
                f"held-out {test:.4f}  shards {len(stream.loaded)} (repeated {stream.repeats})")
            last_say, said_at = elapsed(), seen
    return {"steps": steps, "tokens": seen, "seconds": elapsed() - begin, "history": history,
            "unique_tokens": len(stream.loaded) * ROWS_PER_SHARD * LENGTH}


def save(model, encoder, vocabulary, folder):
    """Writes the model directory: float16 weights in shards, tokenizer, chat template."""
    import torch

    os.makedirs(folder, exist_ok=True)
    model.to(torch.float16).save_pretrained(folder, max_shard_size="10MB")
    shutil.copy(vocabulary, os.path.join(folder, "tokenizer.model"))
    special = {name: {"content": name, "special": True, "normalized": False, "lstrip": False, "rstrip": False,
                      "single_word": False} for name in
               ("<pad>", "<eos>", "<bos>", "<unk>", tokens.START_OF_TURN, tokens.END_OF_TURN)}
    files = {
        "tokenizer_config.json": {
            "tokenizer_class": "GemmaTokenizer", "add_bos_token": True, "add_eos_token": False, "bos_token": "<bos>",
            "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>", "model_max_length": 1024,
            "added_tokens_decoder": {str(encoder.pieces.piece_to_id(name)): value for name, value in special.items()},
            "chat_template": CHAT_TEMPLATE},
        "generation_config.json": {
            "bos_token_id": tokens.BOS, "eos_token_id": [tokens.EOS, encoder.end_of_turn], "pad_token_id": tokens.PAD,
            "do_sample": True, "temperature": 0.6, "top_k": 40, "top_p": 0.95},
    }
    for name, content in files.items():
        with open(os.path.join(folder, name), "w") as file:
            json.dump(content, file, indent=2)
    patch_config(os.path.join(folder, "config.json"))


def patch_config(path):
    # layer_types is what counts; readers that look at the older number must find the same pattern.
    with open(path) as file:
        config = json.load(file)
    config["_sliding_window_pattern"] = PATTERN
    with open(path, "w") as file:
        json.dump(config, file, indent=2)


def evaluate_saved(folder, encoder, held_out, count, report):
    """Judges the files as written, not the model in memory: rounding to float16 is part of the result."""
    import torch
    from transformers import AutoModelForCausalLM

    import evaluate

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    model = model.to("cuda").eval()
    trainer = Trainer(model, batch_rows=64, use_compile=False)
    trainer.use_masks = report["document_masks"]
    with torch.no_grad():
        report["held_out_loss"] = trainer.held_out_loss(held_out)
    report["held_out_perplexity"] = math.exp(report["held_out_loss"])
    say(f"saved model: held-out loss {report['held_out_loss']:.4f}")
    report["samples"] = evaluate.free_samples(model, encoder)
    report["stories"], report["sample_stories"] = evaluate.story_scores(model, encoder, count)
    say(f"stories {report['stories']}")
    report["questions"], report["wrong_answers"] = evaluate.question_scores(model, encoder, count // 2)
    say(f"questions {report['questions']}")
    report["context"] = evaluate.context_scores(model, encoder, count)
    say(f"context {report['context']}")
    for sample in report["samples"]:
        print(f"> {sample['prompt']}\n{sample['text']}\n", flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder for model/ and report.json")
    parser.add_argument("--minutes", type=float, default=7.0, help="wall time for all but saving and evaluation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1),
                        help="processes that write text")
    parser.add_argument("--batch-rows", type=int, default=128)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="everything once, tiny, in less than a minute")
    return parser.parse_args()


def main():
    args = parse_arguments()
    os.makedirs(args.out, exist_ok=True)
    seconds = 30 if args.smoke else args.minutes * 60
    prefix = os.path.join(tempfile.mkdtemp(prefix="tales-vocabulary-"), "tales")
    vocabulary = tokens.train_vocabulary(prefix, documents=6_000 if args.smoke else 40_000, threads=args.workers + 1)
    say("vocabulary ready")
    stream = ShardStream(vocabulary, args.workers, args.seed)
    try:
        run(args, seconds, vocabulary, stream)
    finally:
        stream.close()


def run(args, seconds, vocabulary, stream):
    import torch

    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    encoder = tokens.Encoder(vocabulary)
    batch_rows = 32 if args.smoke else args.batch_rows
    held_out = to_device(tokens.held_out_rows(encoder, batch_rows * 2, LENGTH))
    model = build_model(encoder.end_of_turn).to("cuda").train()
    parameters = sum(p.numel() for p in model.parameters())
    say(f"{parameters / 1e6:.2f} M parameters on {torch.cuda.get_device_name()}")
    trainer = Trainer(model, batch_rows, use_compile=not args.no_compile)
    way = trainer.warm_up(to_device(stream.next()[:batch_rows]))
    report = {"parameters": parameters, "seed": args.seed, "way": way, "document_masks": trainer.use_masks,
              "torch": torch.__version__}
    # A smoke run always trains a little, however long the compilation took.
    report["training"] = train(trainer, stream, held_out, max(seconds, elapsed() + 8))
    stream.close()
    folder = os.path.join(args.out, "model")
    save(model, encoder, vocabulary, folder)
    say(f"saved {sorted(os.listdir(folder))}")
    failed = False
    try:
        evaluate_saved(folder, encoder, held_out, 16 if args.smoke else 128, report)
    except Exception:
        # The model is safe on disk; what was measured so far is worth keeping too.
        report["evaluation_error"] = traceback.format_exc()
        failed = True
        say(report["evaluation_error"])
    report["seconds"] = elapsed()
    with open(os.path.join(args.out, "report.json"), "w") as file:
        json.dump(report, file, indent=1)
    say("done")
    if failed:
        sys.exit("the evaluation failed; the model was saved")


if __name__ == "__main__":
    main()
