"""Which combinations are held out: decided by a hash of the combination, so training never sees them anywhere."""

import zlib

HELD_OUT_EVERY = 20  # one combination in twenty


def is_held_out(*parts):
    """True for the fixed 5 % of combinations that are kept for evaluation; the order of the parts does not matter."""
    key = "+".join(sorted(str(part) for part in parts))
    return zlib.crc32(key.encode()) % HELD_OUT_EVERY == 0


def is_held_out_ordered(*parts):
    """The same where the order matters: 7 minus 5 is another question than 5 minus 7."""
    return zlib.crc32("|".join(str(part) for part in parts).encode()) % HELD_OUT_EVERY == 0
