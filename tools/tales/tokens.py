"""Text to tokens: trains the SentencePiece vocabulary, encodes documents and packs them into rows."""

import itertools
import os
import random

import numpy as np
import sentencepiece

from conversations import Writer

PAD, EOS, BOS, UNK = 0, 1, 2, 3
START_OF_TURN, END_OF_TURN = "<start_of_turn>", "<end_of_turn>"
VOCAB = 3072
# Set on tokens that the reader typed: training gives them little weight. Ids stay far below this bit.
PROMPT_BIT = 0x8000
OPEN_ROWS = 24  # rows being filled at once; short documents fill the gaps that stories leave

HELD_OUT_SEED = 1_000_003


def train_vocabulary(path, documents=40_000, threads=16):
    """Writes PATH.model, a Gemma-like byte-fallback BPE vocabulary learned from the first documents of a fixed seed."""
    writer = Writer(random.Random(0))
    texts = (text for _ in range(documents) for _, text in writer.document().messages)
    # Every printable ASCII character becomes a piece of its own, so that what people type needs few byte pieces.
    sentences = itertools.chain(["".join(chr(c) for c in range(33, 127))], texts)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences, model_prefix=str(path), vocab_size=VOCAB, model_type="bpe", byte_fallback=True,
        character_coverage=1.0, split_digits=True, add_dummy_prefix=False, remove_extra_whitespaces=False,
        normalization_rule_name="identity", pad_id=PAD, eos_id=EOS, bos_id=BOS, unk_id=UNK, pad_piece="<pad>",
        eos_piece="<eos>", bos_piece="<bos>", unk_piece="<unk>", control_symbols=[START_OF_TURN, END_OF_TURN],
        user_defined_symbols=["\n"], max_sentence_length=8192, num_threads=threads, minloglevel=1)
    os.remove(f"{path}.vocab")
    return f"{path}.model"


class Encoder:
    """Documents to token ids. The turn markers are control tokens, so ordinary text can never produce them."""

    def __init__(self, model_path):
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=str(model_path))
        self.start_of_turn = self.pieces.piece_to_id(START_OF_TURN)
        self.end_of_turn = self.pieces.piece_to_id(END_OF_TURN)
        assert self.pieces.get_piece_size() == VOCAB and UNK not in (self.start_of_turn, self.end_of_turn)
        self._newline = self.encode("\n")
        self._heads = {role: [self.start_of_turn] + self.encode(f"{role}\n") for role in ("user", "model")}

    def encode(self, text):
        return self.pieces.encode(text)

    def decode(self, ids):
        return self.pieces.decode([int(i) for i in ids])

    def document(self, document):
        """The ids of a document; what the reader typed carries PROMPT_BIT."""
        if document.messages[0][0] == "text":
            return [BOS] + self.encode(document.messages[0][1]) + [EOS]
        ids = [BOS]
        for role, text in document.messages:
            if role == "user":
                turn = self._heads[role] + self.encode(text) + [self.end_of_turn] + self._newline
                ids += [i | PROMPT_BIT for i in turn]
            else:
                ids += [i | PROMPT_BIT for i in self._heads[role]]
                ids += self.encode(text) + [self.end_of_turn]
                ids += [i | PROMPT_BIT for i in self._newline]
        return ids

    def prompt(self, messages):
        """The ids up to where the model's next turn begins."""
        ids = [BOS]
        for role, text in messages:
            ids += self._heads[role] + self.encode(text) + [self.end_of_turn] + self._newline
        return ids + self._heads["model"]


def pack_rows(encoder, writer, rows, length):
    """[rows, length] of whole documents side by side; each row starts with <bos>, gaps at the end are <pad>."""
    packed = np.zeros((rows, length), dtype=np.uint16)
    done = 0
    open_rows = []
    while done < rows:
        ids = encoder.document(writer.document())
        if len(ids) > length:
            continue
        for row in open_rows:
            if len(row) + len(ids) <= length:
                row += ids
                break
        else:
            open_rows.append(ids)
            if len(open_rows) > OPEN_ROWS:
                fullest = max(range(len(open_rows)), key=lambda i: len(open_rows[i]))
                row = open_rows.pop(fullest)
                packed[done, :len(row)] = row
                done += 1
    return packed


def write_shards(model_path, folder, worker, workers, shards, shape):
    """One process's share: shards WORKER, WORKER + WORKERS, ... each from its own seed, so the text is reproducible."""
    os.nice(5)  # the process that feeds the accelerator goes first
    encoder = Encoder(model_path)
    for shard in range(worker, shards, workers):
        rows = pack_rows(encoder, Writer(random.Random(7919 * (shard + 1))), *shape)
        unfinished = os.path.join(folder, f"unfinished-{shard}.npy")
        np.save(unfinished, rows)
        os.replace(unfinished, shard_path(folder, shard))


def shard_path(folder, shard):
    return os.path.join(folder, f"shard-{shard:05d}.npy")


def held_out_rows(encoder, rows, length):
    return pack_rows(encoder, Writer(random.Random(HELD_OUT_SEED), held_out=True), rows, length)
