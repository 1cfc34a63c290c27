# SPDX-License-Identifier: Apache-2.0
# A tiny GPT learns the same in coll-train and in PyTorch, from the same weights on the same micro-batches.
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

ROOT, COLL_TRAIN, COLL_RUN = sys.argv[1:4]
sys.dont_write_bytecode = True
sys.path += [os.path.join(ROOT, "tests", "house"), os.path.join(ROOT, "training", "pytorch")]

import tap  # noqa: E402
import text_batches  # noqa: E402


class BesidePytorch(unittest.TestCase):
    def test_losses_agree_and_both_speeds_are_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            text = os.path.join(folder, "text")
            with open(text, "w", encoding="utf-8") as file:
                file.write(" ".join(random.Random(1).choices(["one", "two", "three", "four", "five"], k=500)))
            done = subprocess.run(
                [os.path.join(ROOT, "training", "beside-pytorch"), "--coll-train", COLL_TRAIN, "--coll-run", COLL_RUN,
                 "--python", sys.executable, "--json", "--data", f"text:{text}", "--layers", "2", "--channels", "16",
                 "--heads", "2", "--tokens", "12", "--sequences", "3", "--micro-batches", "4", "--steps", "25", "--rate",
                 "0.01", "--rounds", "1", "--speed-steps", "2"],
                capture_output=True, text=True, timeout=100, check=False)
        if done.returncode == 77:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        result = json.loads(done.stdout)
        losses = result["losses"]
        self.assertEqual(losses["steps"], 25)
        self.assertLess(losses["last"][0], losses["first"][0] - 0.3, "it learns")
        self.assertLess(losses["greatest_difference"], 1e-4)
        self.assertLess(losses["greatest_relative_difference_of_norms"], 1e-3)
        best = result["speeds"]["best"]
        self.assertEqual(len(best), 3, best)
        for name, one in best.items():
            self.assertGreater(one["tokens_per_second"], 0, name)


class Philox(unittest.TestCase):
    def test_gives_the_known_answers(self):
        """Those of its authors' Random123, kat_vectors."""
        ones = 0xFFFFFFFF
        self.assertEqual(text_batches.philox([0, 0, 0, 0], 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8])
        self.assertEqual(text_batches.philox([ones] * 4, ones << 32 | ones),
                         [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD])


if __name__ == "__main__":
    tap.main()
