#!/usr/bin/env python3
"""Prints generated documents: a look at what the model learns from."""

import argparse
import random

from conversations import KINDS, Writer


def render(document):
    """The document in Gemma's turn format, as text for people to read."""
    if document.messages[0][0] == "text":
        return document.messages[0][1] + "\n"
    return "".join(f"<start_of_turn>{role}\n{text}<end_of_turn>\n" for role, text in document.messages)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--kind", choices=sorted(KINDS), help="only this kind of document")
    parser.add_argument("--held-out", action="store_true", help="only combinations that training never sees")
    args = parser.parse_args()
    writer = Writer(random.Random(args.seed), args.held_out)
    for _ in range(args.count):
        print(render(writer.document(args.kind)))


if __name__ == "__main__":
    main()
