# SPDX-License-Identifier: Apache-2.0
# Coll-tune as a program: it measures a table, the library finds it and says so, and what is wrong
# with either is told.
"""usage: coll_tune_run_test.py COLL_TUNE COLL_RUN COLL_PERF"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

COLL_TUNE, COLL_RUN, COLL_PERF = sys.argv[1:4]
LAUNCHERS = ("COLL_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")


def run(cache, *command, **more):
    environment = {k: v for k, v in os.environ.items() if k not in (*LAUNCHERS, "COLL_TUNING")}
    environment.update(XDG_CACHE_HOME=cache, **more)
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def tune(cache, *arguments, **more):
    return run(cache, COLL_TUNE, "--seconds", "0.2", "-t", "all_reduce,barrier", "--sizes", "8,1K",
               *arguments, **more)


def explain(cache, **more):
    return run(cache, COLL_RUN, "-n", "2", "--", COLL_PERF, "--sizes", "1K",
               "--explain", **more)


class Program(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.cache = place.name

    def table(self):
        found = glob.glob(self.cache + "/collectives/tuning-*.json")
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_what_it_measures_is_found_and_used(self):
        done = tune(self.cache, "-n", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.table(), encoding="utf-8") as file:
            table = json.load(file)
        self.assertEqual({(p["operation"], p["bytes"]) for p in table["points"]},
                         {("all_reduce", 8), ("all_reduce", 1024), ("barrier", 0)})
        for point in table["points"]:
            self.assertEqual((point["ranks"], point["transport"]), (2, "shm"))
            self.assertGreaterEqual(len(point["us"]), 1)
            self.assertTrue(all(us > 0 and noise > 0 for us, noise in point["us"].values()))
        again = re.search(r"(\d+) of 3 choices differ from the model's and were raced again: (\d+) were faster",
                          done.stderr)
        self.assertIsNotNone(again, done.stderr)
        told = explain(self.cache)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn(f"measured ({self.table()}):", told.stdout)
        # What the table still changes has shown its gain twice.
        if again[2] == "0":
            self.assertIn("chosen by: the model", told.stdout)
        self.assertIn("chosen by:", told.stdout)
        self.assertNotIn("measured (", explain(self.cache, COLL_TUNING="none").stdout)
        self.assertIn("forced by COLL_ALGORITHM", explain(self.cache, COLL_ALGORITHM="ring").stdout)
        # One that is fast beyond doubt is taken, whatever the model says.
        for point in table["points"]:
            point["us"] = {"chain": [0.001, 0], **{k: v for k, v in point["us"].items() if k != "chain"}}
        with open(self.table(), "w", encoding="utf-8") as file:
            json.dump(table, file)
        told = explain(self.cache)
        self.assertIn("all_reduce of up to 1024 bytes over 2 ranks: chain,", told.stdout)
        self.assertIn("chosen by: the tuning table", told.stdout)

    def test_cuts_are_measured_where_there_is_something_to_cut(self):
        done = run(self.cache, COLL_TUNE, "-n", "2", "--seconds", "0.2", "-t", "all_reduce", "--sizes", "1K,1M")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.table(), encoding="utf-8") as file:
            table = json.load(file)
        small, large = ({name for name in point["us"] if "/" in name} for point in table["points"])
        self.assertEqual(small, set())
        for name in large:
            self.assertRegex(name, r"^[a-z_]+/[124]x(16384|65536|262144|1048576)$")
        # A slower cut may stay when its algorithm's own cut has lost the second race and is taken back.
        times = table["points"][1]["us"]
        if (fastest := next(iter(times))) in large:
            self.assertIn(fastest.split("/")[0], times)
        table["points"][1]["us"] = {"ring/2x32K": [0.001, 0], **table["points"][1]["us"]}
        with open(self.table(), "w", encoding="utf-8") as file:
            json.dump(table, file)
        self.assertIn("ring/2x32768 0.001 (+- 0.000);", run(self.cache, COLL_TUNE, "--print").stdout)

        def told(**more):
            return run(self.cache, COLL_RUN, "-n", "2", "--", COLL_PERF, "--sizes", "1M",
                       "--explain", **more).stdout
        self.assertIn(": ring, 2 lanes, slices of 32768 bytes,", told())
        self.assertIn("ring/2x32768 0.00 us;", told())
        self.assertIn("chosen by: the tuning table", told())
        self.assertIn(": ring, 1 lane, slices of 32768 bytes,", told(COLL_LANES="1"))
        self.assertIn(": two_shot, 4 lanes, slices of 16384 bytes,",
                      told(COLL_ALGORITHM="two_shot/4x16K@1M", COLL_LANES="1"))
        # On a busy machine a race may find another rhythm than the one before, and leaves its cuts out.
        cuts = []
        while len(cuts) <= 2:
            done = run(self.cache, COLL_TUNE, "-n", "2", "--seconds", "0.2", "-t", "all_reduce", "--sizes", "1M",
                       "--regret", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            point = json.loads(done.stdout)["points"][0]
            cuts = [name for name in point["times"] if "/" in name]
        self.assertEqual(point["table"], "ring/2x32768")
        fastest = min(time["us"] for time in point["times"].values())
        self.assertAlmostEqual(point["regret_with_table"], point["times"]["ring/2x32768"]["us"] / fastest - 1)

    def test_later_measurements_join_the_table(self):
        self.assertEqual(tune(self.cache, "-n", "2,3").returncode, 0)
        self.assertEqual(tune(self.cache, "-n", "3", "--transports", "tcp").returncode, 0)
        shown = run(self.cache, COLL_TUNE, "--print", "--json")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        scopes = {(p["ranks"], p["transport"]) for p in json.loads(shown.stdout)["points"]}
        self.assertEqual(scopes, {(2, "shm"), (3, "shm"), (3, "tcp")})
        text = run(self.cache, COLL_TUNE, "--print").stdout
        self.assertIn("# 3 ranks as", text)

    def test_a_broken_table_is_warned_of_and_no_failure(self):
        path = self.cache + "/broken.json"
        with open(path, "w", encoding="utf-8") as file:
            file.write("{")
        told = explain(self.cache, COLL_TUNING=path)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("going on without the tuning table", told.stderr)
        self.assertIn(path, told.stderr)

    def test_regret_writes_no_table(self):
        plot = self.cache + "/regret.svg"
        done = tune(self.cache, "-n", "2", "--regret", "--json", "--plot", plot)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(len(result["points"]), 3)
        for point in result["points"]:
            times = {name: time["us"] for name, time in point["times"].items()}
            self.assertAlmostEqual(times[point["fastest"]], min(times.values()))
            self.assertGreaterEqual(point["regret"], 0)
        self.assertEqual(result["summary"]["all"]["points"], 3)
        self.assertFalse(glob.glob(self.cache + "/collectives/*"))
        with open(plot, encoding="utf-8") as file:
            self.assertIn("<svg", file.read(200))

    def test_where_it_cannot_write_it_does_not_measure(self):
        file = self.cache + "/file"
        with open(file, "w", encoding="utf-8"):
            pass
        done = run(self.cache, COLL_TUNE, "--seconds", "1000", "--table", file + "/table.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("writing into " + file, done.stderr)

    def test_what_makes_no_sense_is_refused(self):
        for arguments in (["-t", "all_redoce"], ["--sizes", "x"], ["-n", "1"], ["--seconds", "0"],
                          ["--seconds", "nan"], ["--seconds", "inf"], ["-t", "sendrecv"]):
            done = run(self.cache, COLL_TUNE, *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn("coll-tune", done.stderr)
        self.assertEqual(run(self.cache, COLL_TUNE, "--print").returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
