# SPDX-License-Identifier: Apache-2.0
# The micro-batches of text that coll-train sees, made anew from their description: a second hand at the same numbers.
#
# Sequence i of training begins at floor(u * positions / 2^64), where u are the 64 bits that Philox4x32-10 gives for the
# counter i under the key of (seed, purpose 1). See data/text_source.cpp, math/counter_random.hpp and math/philox.hpp.
import subprocess

MASK = 0xFFFFFFFF
POSITIONS = 1  # the purpose, in data/draw.hpp


def philox(counter, key):
    """Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3."""
    c, k0, k1 = list(counter), key & MASK, key >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k0, b & MASK, a >> 32 ^ c[3] ^ k1, a & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c


def read_text(data):
    """The bytes of coll-train's --data: bible, or text:FILE."""
    if data.startswith("text:"):
        with open(data[5:], "rb") as file:
            return file.read()
    lines = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], stdin=subprocess.DEVNULL, capture_output=True,
                           check=True).stdout.splitlines()
    return b"".join(line.split(b" ", 1)[1].lstrip(b" ") + b"\n" for line in lines)


class TextBatches:
    def __init__(self, data, seed, sequences, tokens):
        text = read_text(data)
        symbol = {byte: number for number, byte in enumerate(sorted(set(text)))}
        self.symbols = [symbol[byte] for byte in text]
        self.kinds, self.sequences, self.tokens = len(symbol), sequences, tokens
        self.positions = len(text) // 10 * 9 - tokens
        words = philox([POSITIONS, 0, 0, 0], seed)
        self.key = words[1] << 32 | words[0]

    def __call__(self, number):
        """The sequences of a micro-batch, each with the target of its last token."""
        batch = []
        for i in range(number * self.sequences, (number + 1) * self.sequences):
            high, low = philox([i & MASK, i >> 32, 0, 0], self.key)[:2]
            at = (high << 32 | low) * self.positions >> 64
            batch.append(self.symbols[at:at + self.tokens + 1])
        return batch
