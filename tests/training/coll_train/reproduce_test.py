# SPDX-License-Identifier: Apache-2.0
# What training/reproduce says of runs: outcomes, the files that it writes, and when a loss was reached.
import array
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = sys.argv[1]
sys.dont_write_bytecode = True
sys.path += [os.path.join(ROOT, "tests", "house"), os.path.join(ROOT, "training", "reproducing")]

import tap  # noqa: E402
from results import Results  # noqa: E402
from runs import Run  # noqa: E402


class Reproduce(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.folder = self.place.name
        self.addCleanup(self.place.cleanup)

    def file(self, name):
        return os.path.join(self.folder, name)

    def test_outcomes_are_in_the_table_the_json_and_the_page(self):
        results = Results(self.folder)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            results.target("speed", "> 5", "6", True)
            results.target("loss & more", "< 1", "not measured", None)
            self.assertFalse(results.missed(), "what was not measured was not missed")
            results.target("memory", "< 3 < 4", "5", False)
        self.assertEqual(said.getvalue().splitlines()[0], "PASS speed: 6 (wanted: > 5)")
        results.run("one", "coll-train --steps 1", 2.5)
        self.assertTrue(results.missed())
        results.write()
        with open(self.file("results.json"), encoding="utf-8") as file:
            found = json.load(file)
        self.assertEqual([row["outcome"] for row in found["targets"]], ["PASS", "SKIP", "MISS"])
        with open(self.file("summary.md"), encoding="utf-8") as file:
            self.assertIn("| MISS | memory | < 3 < 4 | 5 |", file.read())
        with open(self.file("index.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn('href="one/report.html"', page)
        self.assertIn("&lt; 3 &lt; 4", page)
        self.assertIn("loss &amp; more", page)

    def test_a_run_tells_when_a_loss_was_reached_and_its_weights(self):
        with open(self.file("report.json"), "w", encoding="utf-8") as file:
            json.dump({"summary": {}}, file)
        header = b'{"w":{}}'
        with open(self.file("weights.safetensors"), "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header + array.array("f", [1.5, -2]).tobytes())
        run = Run(self.folder, [(1.0, {"step": 1, "loss": 0.1}), (2.0, {"step": 2, "validation_loss": 3.0}),
                                (3.0, {"step": 3, "validation_loss": 1.9}), (4.0, {"step": 4, "validation_loss": 1.0})])
        self.assertEqual(run.first_below(2.0), (3.0, 3))
        self.assertIsNone(run.first_below(1.0))
        self.assertEqual(list(run.weights()), [1.5, -2])
        self.assertEqual(len(run.sha256()), 64)

    def test_refuses_a_part_that_it_does_not_know(self):
        done = subprocess.run([os.path.join(ROOT, "training", "reproduce"), "--only", "everything", "--coll-train",
                               sys.executable, "--coll-run", sys.executable], cwd=self.folder, capture_output=True,
                              text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no part everything; parts are kjv, fashion", done.stderr)


if __name__ == "__main__":
    tap.main()
