# SPDX-License-Identifier: Apache-2.0
# Compare-peers' reading of result lines and its ratios.
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
        page = compare_peers.markdown(self.table, compare_peers.wrong_results(self.rows), "2 ranks")
        self.assertIn("| ratio | 8 B | 64 KiB |", page)
        self.assertIn("| all_reduce | 0.50 |  |", page)
        self.assertIn("| broadcast |  | 2.00 |", page)
        self.assertIn("| 8 B | 0.25 | 40% | 0.50 | 40% | ompi | 0.50 |", page)
        self.assertIn("Wrong results, left out: mpich broadcast 64 KiB.", page)

    def test_sizes(self):
        self.assertEqual([compare_peers.size_text(s) for s in (8, 1024, 1536, 1 << 26, 1 << 30)],
                         ["8 B", "1 KiB", "1536 B", "64 MiB", "1 GiB"])

    def test_plot_lines(self):
        lines = compare_peers.plot_lines(self.table)
        self.assertIn("all_reduce,8,0.50000\n", lines)
        self.assertTrue(lines.startswith("-fastest peer,8,1\n-fastest peer,65536,1\n"))

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True,
                              check=False)

    def test_writes_tables_of_an_earlier_run(self):
        with tempfile.TemporaryDirectory() as folder:
            raw = os.path.join(folder, "raw.csv")
            with open(raw, "w", encoding="utf-8") as file:
                file.write(RECORDED)
            done = self.run_script("--read", raw, "--out", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(folder, "peers.csv"), encoding="utf-8") as file:
                self.assertIn("all_reduce,8,3,0.2500,0.4000,0.5000,0.4000,ompi,0.5000", file.read())

    def test_says_what_is_missing(self):
        self.assertIn("--peers names the folder", self.run_script().stderr)
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("has no run.sh", self.run_script("--peers", folder).stderr)


if __name__ == "__main__":
    unittest.main()
