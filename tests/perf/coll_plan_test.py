# SPDX-License-Identifier: Apache-2.0
# Coll-plan explains and scales, in text, JSON and pictures, and refuses what it does not know.
"""usage: coll_plan_test.py COLL_PLAN"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

COLL_PLAN = sys.argv[1]
HOST = "gpu:8 nvlink:switchx12@25GB nic:4@200G pcie:4x16"


def run(*arguments):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COLL_")}
    return subprocess.run([COLL_PLAN, *arguments], env=environment, capture_output=True, text=True,
                          check=False, timeout=60)


class Explain(unittest.TestCase):
    def test_text_says_candidates_choice_and_reason(self):
        done = run("explain", "--topology", HOST, "--bytes", "256M")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"\Aall_reduce of 256 MiB over 8 ranks on 1 host")
        self.assertRegex(done.stdout, r"(?m)^ring +[\d.]+ +2\d\d\.\d\d  links of GPU0, out \(100 %\)$")
        self.assertRegex(done.stdout, r"(?m)^choice: ring, 16 lanes, slices of 512 KiB\nwhy: links of GPU0, out is")

    def test_json_has_it_all_and_the_picture_is_one(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = os.path.join(folder, "schedule.svg")
            done = run("explain", "--topology", HOST, "--ranks", "4", "--operation", "broadcast",
                       "--bytes", "1K", "--root", "2", "--json", "--svg", picture)
            xml.etree.ElementTree.parse(picture)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        plan = json.loads(done.stdout)
        self.assertEqual((plan["ranks"], plan["operation"], plan["root"], plan["bytes"]),
                         (4, "broadcast", 2, 1024))
        names = [candidate["algorithm"] for candidate in plan["candidates"]]
        self.assertEqual(plan["algorithm"], names[0])
        self.assertIn("binomial", names)
        for candidate in plan["candidates"]:
            self.assertGreater(candidate["us"], 0)
        self.assertEqual(plan["predicted_us"], plan["candidates"][0]["us"])

    def test_an_algorithm_can_be_asked_for(self):
        done = run("explain", "--topology", HOST, "--algorithm", "chain", "--steps")
        self.assertRegex(done.stdout, r"(?m)^choice: chain, .*\nwhy: it was asked for$")
        self.assertRegex(done.stdout, r"(?m)^lane 0  0  ")

    def test_the_order_of_sums_leaves_fewer_to_choose_from(self):
        done = run("explain", "--topology", HOST, "--ranks", "6", "--order", "tree", "--json")
        candidates = {each["algorithm"] for each in json.loads(done.stdout)["candidates"]}
        self.assertIn("two_shot_ordered", candidates)
        self.assertNotIn("ring", candidates)

    def test_this_machine_needs_no_description(self):
        done = run("explain", "--ranks", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"over 2 ranks on 1 host")

    def test_mistakes_are_named(self):
        for arguments, part in ((["--operation", "all_sum"], "the known ones are: all_reduce"),
                                (["--algorithm", "rings"], "unknown algorithm"),
                                (["--root", "9"], "root 9 is none of 8 ranks"),
                                (["--ranks", "100000"], "ask for at most"),
                                (["--bytes", "18446744073709551615"], "more than any buffer"),
                                (["--svg", "/no/such/folder/x.svg"], "No such file")):
            done = run("explain", "--topology", HOST, *arguments)
            self.assertEqual((done.returncode, done.stdout), (1, ""), arguments)
            self.assertIn(part, done.stderr)
        done = run("explain", "--topology", "gpus:8")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("gpus", done.stderr)


class Scale(unittest.TestCase):
    def test_curves_as_text_json_and_pictures(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "all_reduce")
            done = run("scale", "--topology", "host:2 " + HOST, "--bytes", "1K,1M", "--ranks", "64",
                       "--svg", prefix)
            for size in ("1KiB", "1MiB"):
                xml.etree.ElementTree.parse(f"{prefix}-{size}.svg")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^ +64 .*  \w+ \(.*\)$")
        done = run("scale", "--topology", "host:2 " + HOST, "--bytes", "1M", "--ranks", "64", "--json",
                   "--algorithms", "ring,hierarchical_ring")
        results = json.loads(done.stdout)["results"]
        self.assertEqual({r["algorithm"] for r in results}, {"ring", "hierarchical_ring"})
        self.assertEqual([r["ranks"] for r in results if r["algorithm"] == "ring"], [8, 16, 32, 64])

    def test_it_needs_two_equal_hosts(self):
        done = run("scale", "--topology", HOST)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("host:2", done.stderr)
        done = run("scale", "--topology", "host:2 " + HOST, "--algorithms", "ring@1M")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("the known ones are: local", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
