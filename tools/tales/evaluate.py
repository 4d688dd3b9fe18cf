"""Measures a trained model on what it has never seen: right answers by kind of question, and whether stories hold."""

import random
import re

import torch

from conversations import Writer
from grammar import Grammar
from questions import KINDS, Asker
from stories import StoryTeller, request_text
from tokens import BOS, EOS, PAD

SEED = 424_242


@torch.no_grad()
def complete(model, encoder, prompts, max_new, temperature=0.0, seed=0):
    """Continues every prompt (a list of ids) and returns the texts and whether each one ended by itself.

    The whole batch is computed anew for each token: for a model this small that is fast enough, and right-padded rows
    without a cache cannot go wrong.
    """
    device = next(model.parameters()).device
    generator = torch.Generator(device=device).manual_seed(seed)
    stops = torch.tensor([EOS, encoder.end_of_turn], device=device)
    lengths = torch.tensor([len(p) for p in prompts], device=device)
    ids = torch.full((len(prompts), max(map(len, prompts)) + max_new), PAD, dtype=torch.long, device=device)
    for row, prompt in enumerate(prompts):
        ids[row, :len(prompt)] = torch.tensor(prompt, device=device)
    every = torch.arange(len(prompts), device=device)
    ended = torch.zeros(len(prompts), dtype=torch.bool, device=device)
    start = lengths.clone()
    for _ in range(max_new):
        width = int(lengths.max())
        hidden = model.model(input_ids=ids[:, :width], use_cache=False).last_hidden_state
        logits = model.lm_head(hidden[every, lengths - 1]).float()
        if temperature > 0:
            chosen = torch.multinomial(torch.softmax(logits / temperature, -1), 1, generator=generator)[:, 0]
        else:
            chosen = logits.argmax(-1)
        ended = ended | torch.isin(chosen, stops)
        ids[every, lengths] = torch.where(ended, PAD, chosen)
        lengths = torch.where(ended, lengths, lengths + 1)
        if bool(ended.all()):
            break
    texts = [encoder.decode(ids[i, start[i]:lengths[i]].tolist()).strip() for i in range(len(prompts))]
    return texts, ended.tolist()


def question_scores(model, encoder, per_kind):
    """Share of exactly right answers for each kind of question; held-out combinations wherever the kind has any."""
    asker = Asker(Grammar(random.Random(SEED)), held_out=True)
    asked = [asker.ask(kind) for kind in KINDS for _ in range(per_kind)]
    texts, _ = complete(model, encoder, [encoder.prompt([("user", q.text)]) for q in asked], max_new=64)
    scores, wrong = {}, []
    for question, text in zip(asked, texts):
        scores.setdefault(question.kind, []).append(text == question.answer)
        if text != question.answer:
            wrong.append({"question": question.text, "answer": text, "expected": question.answer})
    random.Random(SEED).shuffle(wrong)
    return {kind: sum(s) / len(s) for kind, s in scores.items()}, wrong[:20]


def context_scores(model, encoder, per_kind):
    """Share of exactly right last answers where the answer stands earlier in the conversation."""
    writer = Writer(random.Random(SEED + 1), held_out=True)
    scores = {}
    for kind in ("story questions", "reading", "memory"):
        documents = [writer.document(kind) for _ in range(per_kind)]
        prompts = [encoder.prompt(d.messages[:-1]) for d in documents]
        texts, _ = complete(model, encoder, prompts, max_new=40)
        scores[kind] = sum(t == d.messages[-1][1] for t, d in zip(texts, documents)) / per_kind
    return scores


def sentences_of(text):
    return [s.strip() for s in re.split(r"(?<=[.!?])\"?\s+", text) if s.strip()]


def story_scores(model, encoder, count, samples=10):
    """Stories for noun pairs that training never saw: do they mention the nouns, end, and not repeat themselves?"""
    grammar = Grammar(random.Random(SEED + 2))
    teller = StoryTeller(grammar, held_out=True)
    wishes = [teller.wish() for _ in range(count)]
    requests = [request_text(grammar, wish) for wish in wishes]
    texts, ended = complete(model, encoder, [encoder.prompt([("user", r)]) for r in requests], max_new=300,
                            temperature=0.6,
                            seed=SEED)
    mentions = [all(re.search(rf"\b{noun}\b", text.lower()) for noun in wish.nouns())
                for wish, text in zip(wishes, texts)]
    fresh = [len(set(sentences_of(text))) == len(sentences_of(text)) for text in texts]
    scores = {"mentions all nouns": sum(mentions) / count, "ends": sum(ended) / count,
              "repeats no sentence": sum(fresh) / count,
              "all three": sum(a and b and c for a, b, c in zip(mentions, ended, fresh)) / count}
    return scores, [{"request": r, "story": t} for r, t in zip(requests[:samples], texts)]


def free_samples(model, encoder):
    """A few fixed prompts to read: a raw beginning and things a person would type first."""
    requests = ["Tell me a story about a fox and a lantern.", "Hello!", "Who are you?", "What is 7 plus 5?",
                "How many legs do two dogs have?", "Who is the king of Norway?", "Tell me a story about a dinosaur."]
    prompts = [encoder.prompt([("user", r)]) for r in requests] + [[BOS] + encoder.encode("Once upon a time")]
    texts, _ = complete(model, encoder, prompts, max_new=260, temperature=0.5, seed=7)
    return [{"prompt": p, "text": t} for p, t in zip(requests + ["Once upon a time"], texts)]
