"""SPIR-V as words: what the tools of this folder share."""

import struct

MAGIC = 0x07230203
HEADER_WORDS = 5


class Error(Exception):
    """What a module has is not what a tool can work with."""


def parse(data, until=None):
    """The header's words and the instructions as (opcode, operands), those before the first with the opcode `until`."""
    if len(data) % 4 != 0 or len(data) < 4 * HEADER_WORDS:
        raise Error(f"not SPIR-V: {len(data)} bytes")
    words = list(struct.unpack(f"<{len(data) // 4}I", data))
    if words[0] != MAGIC:
        raise Error(f"not SPIR-V: begins with {words[0]:#010x}")
    instructions = []
    at = HEADER_WORDS
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        if opcode == until:
            break
        if count == 0 or at + count > len(words):
            raise Error(f"word {at}: an instruction of {count} words does not fit")
        instructions.append((opcode, words[at + 1 : at + count]))
        at += count
    return words[:HEADER_WORDS], instructions


def assemble(header, instructions):
    words = list(header)
    for opcode, operands in instructions:
        words += [(len(operands) + 1) << 16 | opcode, *operands]
    return struct.pack(f"<{len(words)}I", *words)


def string_words(text):
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def text_of(words):
    return struct.pack(f"<{len(words)}I", *words).split(b"\0", 1)[0].decode()
