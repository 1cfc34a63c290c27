# SPDX-License-Identifier: Apache-2.0
# Compare-peers' reading of result lines, its ratios, and its tables of near and of far cores.
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../perf/compare-peers")
loader = importlib.machinery.SourceFileLoader("compare_peers", SCRIPT)
spec = importlib.util.spec_from_loader("compare_peers", loader)
compare_peers = importlib.util.module_from_spec(spec)
loader.exec_module(compare_peers)

RECORDED = """\
peer,transport,nranks,collective,bytes,time_us,busbw_GBps,algbw_GBps,min_us,avg_us,iters,correct,algo
ompi,vader-cma,2,all_reduce,8,0.400,0.0200,0.0200,0.390,0.410,1000,ok,default
gloo,tcp,2,all_reduce,8,9.000,0.0009,0.0009,8.000,9.100,1000,ok,old_ring
gloo,tcp,2,all_reduce,8,5.000,0.0016,0.0016,4.000,5.100,1000,ok,old_bcube
collectives,auto,2,all_reduce,8,0.300,0.0267,0.0267,0.290,0.310,1000,ok,default
some chatter, with commas
ompi,vader-cma,2,all_reduce,8,0.600,0.0133,0.0133,0.590,0.610,1000,ok,default
collectives,auto,2,all_reduce,8,0.200,0.0400,0.0400,0.190,0.210,1000,ok,default
ompi,vader-cma,2,all_reduce,8,0.500,0.0160,0.0160,0.490,0.510,1000,ok,default
collectives,auto,2,all_reduce,8,0.250,0.0320,0.0320,0.240,0.260,1000,ok,default
ompi,vader-cma,2,broadcast,65536,3.000,21.8,21.8,2.9,3.1,1000,ok,default
mpich,default,2,broadcast,65536,1.000,65.5,65.5,0.9,1.1,1000,WRONG,default
collectives,auto,2,broadcast,65536,6.000,10.9,10.9,5.9,6.1,1000,ok,default
collectives,auto,2,reduce,65536,6.000,10.9,10.9,5.9,6.1,1000,ok,default
ompi,vader-cma,2,sendrecv,64
"""

# Peers and a build in one folder, as far as compare-peers sees them: what they print are the next
# lines of the files `times` and `distances`.
FAKES = {
    "next": """sed -n 1p "$here/$1"; sed -i 1d "$here/$1" """,
    "print": """for size in $(echo "$3" | tr , ' '); do
                  echo "$1,any,$2,all_reduce,$size,$("$here/next" times),1,1,1,1,9,ok,default"
                done""",
    "run.sh": """peers=${*:2}
                 for peer in ${peers:-all}; do "$here/print" "$peer" "${1:1}" "${OPTS##* }"; done
                 eval "$EXTRA" """,
    "netns.sh": """[ "$1" = up ] && touch "$here/namespaces" """,
    "ranks.sh": """[ -e "$here/namespaces" ] && "$here/print" collectives "$1" "${@: -1}" """,
    "coll-run": """"$here/print" collectives "$2" "${@: -1}" """,
    "coll-perf": "exit 1",
    "coll-plot": "echo plotted",
    "coll-info": """echo "{\\"machine\\": {\\"line_ns\\": $("$here/next" distances)}}" """,
    "taskset": """[ "$1 $2" = "-c 0,1" ] && "${@:3}" """,
}


class ComparePeers(unittest.TestCase):
    def setUp(self):
        self.rows = compare_peers.parse_rows(RECORDED)
        self.table = compare_peers.compare(self.rows, "collectives")

    def test_reads_result_lines_only(self):
        self.assertEqual(len(self.rows), 12)

    def test_ratio_of_medians_to_the_fastest_peer(self):
        entry = self.table[0]
        self.assertEqual((entry["collective"], entry["bytes"]), ("all_reduce", 8))
        self.assertEqual(entry["ours_us"], 0.25)
        self.assertEqual((entry["best_us"], entry["best_peer"]), (0.5, "ompi"))
        self.assertEqual(entry["ratio"], 0.5)
        self.assertEqual(entry["rounds"], 3)
        self.assertAlmostEqual(entry["ours_spread"], 0.4)

    def test_wrong_results_never_win(self):
        entry = self.table[1]
        self.assertEqual((entry["best_peer"], entry["ratio"]), ("ompi", 2.0))
        self.assertEqual(compare_peers.wrong_results(self.rows), [("mpich", "broadcast", 65536)])

    def test_needs_both_sides(self):
        self.assertEqual(len(self.table), 2)  # reduce has no peer
        self.assertEqual(compare_peers.compare(self.rows, "nobody"), [])

    def test_markdown(self):
        page = compare_peers.markdown(self.table, "2 ranks") + compare_peers.left_out(self.rows)
        self.assertIn("| ratio | 8 B | 64 KiB |", page)
        self.assertIn("| all_reduce | 0.50 |  |", page)
        self.assertIn("| broadcast |  | 2.00 |", page)
        self.assertIn("| 8 B | 0.25 | 40% | 3 | 0.50 | 40% | 3 | ompi | 0.50 |", page)
        self.assertIn("Wrong results, left out: mpich broadcast 64 KiB.", page)

    def test_sizes(self):
        self.assertEqual([compare_peers.size_text(s) for s in (8, 1024, 1536, 1 << 26, 1 << 30)],
                         ["8 B", "1 KiB", "1536 B", "64 MiB", "1 GiB"])

    def test_plot_lines(self):
        lines = compare_peers.plot_lines(self.table)
        self.assertIn("all_reduce,8,0.50000\n", lines)
        self.assertTrue(lines.startswith("-fastest peer,8,1\n-fastest peer,65536,1\n"))

    def test_classes_of_cores(self):
        def cores(*line):
            return compare_peers.cores(dict(zip(compare_peers.LINE, line)))

        self.assertEqual(cores(), "")
        self.assertEqual([cores(20, 75), cores(75, 24)], ["near"] * 2)
        self.assertEqual([cores(90, 280), cores(160, 100)], ["far"] * 2)
        self.assertEqual([cores(30, 140), cores(140, 30), cores(0, 30), cores(140, 0), cores(0, 0)],
                         ["moved"] * 5)

    def run_script(self, *arguments, **variables):
        return subprocess.run([sys.executable, SCRIPT, *arguments], env=os.environ | variables,
                              capture_output=True, text=True, check=False)

    def run_fakes(self, folder, distances, times, *arguments):
        for name, text in FAKES.items():
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/bash\nhere=$(dirname "$0")\n{text}\n')
            os.chmod(path, 0o755)
        for name, values in (("distances", distances), ("times", times)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write("".join(f"{value}\n" for value in values))
        done = self.run_script("--peers", folder, "--build", folder, "--out", folder, "--only", "a",
                               "--colls", "all_reduce", *arguments,
                               PATH=folder + os.pathsep + os.environ["PATH"])
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("distances", "times"):  # all were asked for
            self.assertEqual(os.path.getsize(os.path.join(folder, name)), 0, name)
        return done

    def test_tables_of_near_and_of_far_cores(self):
        with tempfile.TemporaryDirectory() as folder:
            distances = [30, 200, 31,  # three of them before the first run, and after each
                         29, 0, 30,  30, 31, 32,
                         140, 139, 138,  150, 149, 151,
                         148, 150, 152,  130, 130, 130]
            times = [4, 2, 99, 6, 8, 4]  # a, ours, a, ours, a, ours
            done = self.run_fakes(folder, distances, times, "--sizes", "8", "--rounds", "3")
            self.assertIn("round 1 of 3, all_reduce 8, a cache line takes 31 ns", done.stderr)
            with open(os.path.join(folder, "peers.csv"), encoding="utf-8") as file:
                self.assertEqual([line.strip() for line in file][1:], [
                    "near,all_reduce,8,1,1,2.0000,0.0000,4.0000,0.0000,a,0.5000",
                    "far,all_reduce,8,2,1,5.0000,0.4000,8.0000,0.0000,a,0.6250"])
            near, far = done.stdout.split("## 2 ranks, configuration A2, cores ")[1:]
            self.assertTrue(near.startswith("near (30 to 31 ns)\n"), near)
            self.assertIn("| all_reduce | 0.50 |", near)
            self.assertTrue(far.startswith("far (130 to 150 ns)\n"), far)
            self.assertIn("| all_reduce | 0.62 |", far)
            self.assertIn("Left out, as the cores moved meanwhile: 1 of 6 results.", far)
            for name in ("peers-near.svg", "peers-far.svg"):
                self.assertTrue(os.path.exists(os.path.join(folder, name)))
            again = self.run_script("--read", os.path.join(folder, "raw.csv"), "--out", folder)
            self.assertEqual(again.stdout, done.stdout.replace(", configuration A2", ""))

    def test_between_namespaces_all_programs_of_a_point_run_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_fakes(folder, [30] * 9 + [140] * 3 + [30] * 3, [2, 1, 6, 3], "C2",
                                  "--sizes", "8,64", "--rounds", "1")
            self.assertIn("round 1 of 1, all_reduce 64, a cache line takes 140 ns\n", done.stderr)
            self.assertIn("| ratio | 8 B |", done.stdout)
            self.assertIn("Left out, as the cores moved meanwhile: 2 of 4 results.", done.stdout)

    def test_one_table_where_no_distance_is_known(self):
        with tempfile.TemporaryDirectory() as folder:
            for config, distances, times in (
                    ("A2", [0, 0, 0], [2, 20, 1, 30]), ("B4", [], [2, 20, 1, 30])):
                done = self.run_fakes(folder, distances, times, config, "--sizes", "8,64,1K",
                                      "--maxbytes", "64", "--rounds", "1")
                self.assertIn(f"## {config[1:]} ranks, configuration {config}\n", done.stdout)
                self.assertIn("| all_reduce | 0.50 | 1.50 |", done.stdout)
                self.assertIn("round 1 of 1, all_reduce 8,64\n", done.stderr)

    def test_writes_tables_of_an_earlier_run(self):
        with tempfile.TemporaryDirectory() as folder:
            raw = os.path.join(folder, "raw.csv")
            with open(raw, "w", encoding="utf-8") as file:
                file.write(RECORDED)
            done = self.run_script("--read", raw, "--out", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(folder, "peers.csv"), encoding="utf-8") as file:
                self.assertIn(",all_reduce,8,3,3,0.2500,0.4000,0.5000,0.4000,ompi,0.5000", file.read())

    def test_says_what_is_missing(self):
        self.assertIn("--peers names the folder", self.run_script().stderr)
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("has no run.sh", self.run_script("--peers", folder).stderr)


if __name__ == "__main__":
    unittest.main()
