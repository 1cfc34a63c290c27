# SPDX-License-Identifier: Apache-2.0
# Coll-perf as a program, on several ranks: it checks every operation, type, reduction and
# placement, and says what is wrong with its arguments.
"""usage: coll_perf_run_test.py COLL_RUN COLL_PERF"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

COLL_RUN, COLL_PERF = sys.argv[1:3]
LAUNCHERS = ("COLL_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")


def run(*command, **more):
    environment = {k: v for k, v in os.environ.items() if k not in LAUNCHERS} | more
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def ranks(count, *arguments, **more):
    return run(COLL_RUN, "-n", str(count), "--timeout", "120", "--", COLL_PERF,
               *arguments, **more)


class Program(unittest.TestCase):
    def test_everything_is_right_on_three_ranks(self):
        for transport in ("shm", "tcp"):
            done = ranks(3, "-t", "all", "-d", "all", "-o", "all", "-r", "all", "--sizes",
                         "0,48,5000", "-n", "1", "-w", "0", "--batches", "1", "--transports",
                         transport, "--json", "-")
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            self.assertEqual((result["ranks"], result["wrong"]), (3, 0))
            seen = {(r["operation"], r["type"], r["redop"], r["root"], r["bytes"], r["in_place"])
                    for r in result["results"]}
            sizes = 3 * 2  # and in place
            types = 17
            reductions = 8 * 11 + 6 * 8 + 10 + 2 * 3  # of integers, floats, bool, complex numbers
            expected = (reductions * (3 + 3) * sizes  # all_reduce, reduce_scatter and its v; reduce's roots
                        + types * (2 + 5 * 3) * sizes  # all_gather; broadcast, gather, scatter; their v
                        + types * 5 * 3 + 1)  # all_to_all and its v, sendrecv, tagged, its ring; barrier
            self.assertEqual(len(seen), expected)
            self.assertEqual(len(result["results"]), expected)

    def test_everything_is_right_in_memory_that_ranks_share(self):
        for count, memory in ((2, "1"), (3, "1"), (3, "2")):
            done = ranks(count, "-t", "all", "-d", "float,bfloat16", "-R", memory, "--sizes",
                         "8,1000,4K,20K,48K,300K,4M", "-n", "2", "-w", "1", "--batches", "1",
                         "--transports", "shm", "--json", "-")
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            self.assertEqual((result["ranks"], result["wrong"]), (count, 0))
            self.assertEqual(len(result["results"]), 2 * 7 * (11 * 2 + 5) + 1)

    def test_streams(self):
        done = ranks(2, "-t", "all", "--sizes", "8,100K", "-n", "5", "--stream", "--percentiles")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("# Out of bounds values : 0 OK", done.stdout)

    def test_groups_and_calls_in_flight(self):
        every = "all_reduce,reduce,broadcast,all_gather,reduce_scatter,all_to_all,sendrecv_ring,all_gatherv,barrier"
        for kind, calls in (("group", 5), ("inflight", 3)):
            done = ranks(3, "-t", every, "--sizes", "8,100K", "-n", "4", f"--{kind}", str(calls), "--json", "-")
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            self.assertEqual((result[kind], result["wrong"]), (calls, 0))
            batches, turns = 5, 4
            each = batches * turns * (calls if kind == "group" else 1)
            self.assertEqual({one["calls"] for one in result["results"]}, {each})
        whole = "all_reduce,reduce,broadcast,all_gather,reduce_scatter,all_to_all,gather,scatter"
        done = ranks(3, "-t", whole, "--sizes", "8,100K", "-n", "4", "--group", "5", "--coalesce", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual((result["group"], result["coalesced"], result["wrong"]), (5, True, 0))
        for refused in (["--group", "2", "--inflight", "2"], ["--group", "2", "--percentiles"], ["--coalesce"],
                        ["--inflight", "2", "--percentiles"], ["--group", "2", "-t", "sendrecv"],
                        ["--group", "2", "--coalesce", "-t", "all_gatherv"]):
            done = run(COLL_PERF, *refused)
            self.assertEqual(done.returncode, 2)
            self.assertIn("coll-perf: ", done.stderr)

    def test_overlap_is_made_of_what_it_shows(self):
        for compute, *calls in (["work"], ["sleep"], ["work", "--inflight", "3"], ["sleep", "--group", "2"]):
            done = ranks(2, "--sizes", "64K", "-n", "5", "--overlap", compute, *calls, "--cpu", "--json", "-")
            self.assertEqual(done.returncode, 0, done.stderr)
            whole = json.loads(done.stdout)
            self.assertEqual(whole["wrong"], 0)
            for result in whole["results"]:
                part = result["overlap"]
                hidden = 1 - (part["total_us"] - part["compute_us"]) / part["comm_us"]
                self.assertAlmostEqual(part["percent"], 100 * min(max(hidden, 0), 1), places=3)
                # Which of them is more, a busy machine decides anew each time.
                for cpu in (part["comm_cpu_us"], part["total_cpu_us"], result["cpu_us"]):
                    self.assertGreater(cpu, 0)
            self.assertRegex(done.stderr, "cpu +cores +comm +compute +total +overlap")

    def test_ranks_may_be_threads(self):
        for processes, threads in ((0, 3), (2, 2)):
            command = ["-g", str(threads), "-t", "all", "-o", "sum,max", "-r", "all", "--sizes",
                       "0,48,5000,300K", "-n", "2", "-w", "1", "--batches", "1", "--json", "-"]
            done = ranks(processes, *command) if processes else run(COLL_PERF, *command)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            self.assertEqual((result["ranks"], result["ranks_per_process"], result["wrong"]),
                             (max(processes, 1) * threads, threads, 0))
            # Rank r is in process r / threads.
            places = result["hosts"]
            self.assertEqual(len(set(places)), max(processes, 1))
            for first in range(0, len(places), threads):
                self.assertEqual(set(places[first:first + threads]), {places[first]})
            self.assertEqual({each["wrong"] for each in result["results"]}, {0})
            self.assertIn(f"{len(places)} ranks: {threads} threads in each process", done.stderr)
            self.assertNotIn("is alone", done.stderr)

    def test_threads_do_all_that_processes_do(self):
        for more in (["--stream", "--percentiles"], ["--group", "3"], ["--inflight", "2"], ["--overlap", "work"],
                     ["-R", "1"], ["-R", "2"], ["-a", "0", "-c", "0"], ["--pin", "-a", "1"]):
            done = run(COLL_PERF, "-g", "2", "-t", "all_reduce,all_gather", "--sizes", "8,100K", "-n", "3", "--json", "-",
                       *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            self.assertEqual((result["ranks"], result["wrong"], len(result["results"])), (2, 0, 8), more)
        done = run(COLL_PERF, "-g", "2", "--explain", "--sizes", "8", "-t", "all_reduce")
        self.assertEqual((done.returncode, done.stdout.count("all_reduce of 2 x float (8 B):\n")), (0, 1), done.stderr)

    def test_processor_time_is_of_a_rank(self):
        """Calls that block keep no more processors busy than there are, whatever process has the ranks."""
        done = run(COLL_PERF, "-g", "4", "--sizes", "64K", "-n", "300", "-c", "0", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        for result in json.loads(done.stdout)["results"]:
            self.assertGreater(result["cores"], 0)
            self.assertLess(result["cores"], 1.1 * len(os.sched_getaffinity(0)) + 0.5)

    def test_alone_it_says_so(self):
        done = run(COLL_PERF, "--sizes", "1K", "-n", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("this process is alone", done.stdout)

    def test_the_peers_columns(self):
        done = ranks(2, "--peers-csv", "--sizes", "8,64K", "--target", "0.01")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split(",") for line in done.stdout.splitlines()]
        self.assertEqual([line[3] for line in lines[::2]],
                         ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                          "alltoall", "sendrecv"])
        self.assertEqual({(line[0], line[2], line[11], len(line)) for line in lines},
                         {("collectives", "2", "ok", 13)})

    def test_writes_its_files(self):
        with tempfile.TemporaryDirectory() as folder:
            names = {kind: os.path.join(folder, kind) for kind in ("json", "csv", "plot")}
            done = ranks(2, "--sizes", "8,1K", "-n", "2",
                         *[word for kind, name in names.items() for word in (f"--{kind}", name)])
            self.assertEqual(done.returncode, 0, done.stderr)
            starts = {"json": "{", "csv": "operation,ranks,", "plot": "<?xml"}
            for kind, name in names.items():
                with open(name, encoding="utf-8") as file:
                    self.assertTrue(file.read().startswith(starts[kind]))

    def test_explains(self):
        done = ranks(2, "--explain", "--sizes", "8,1M", "-t", "all_reduce")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("all_reduce of 262144 x float (1 MiB):\n", done.stdout)

    def test_plans_stay_for_later_processes(self):
        def explained(**more):
            done = ranks(3, "--explain", "--sizes", "1K", "-t", "all_reduce", "-w", "0", "-n", "1", **more)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("over 3 ranks: ", done.stdout)
            return done.stdout.split("over 3 ranks: ")[1].split(",")[0]

        def sums(path):
            """The lines of sums: those of copies depend on what the ranks measure."""
            with open(path, encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.assertEqual(lines[0], "collectives plans 1")
            return [line for line in lines if " all_reduce 0 0 0 10 " in line]

        with tempfile.TemporaryDirectory() as place:
            path = place + "/plans"
            chosen = explained(COLL_PLANS=path)
            made = sums(path)
            self.assertEqual(len(made), 1, made)
            self.assertIn(f" {chosen} ", made[0])
            explained(COLL_PLANS=path)
            self.assertEqual(sums(path), made)
            # A later process does as the file says, and processes without it do not.
            other = next(name for name in ("ring", "two_shot") if name != chosen)
            changed = made[0].rsplit(" ", 1)[0].replace(f" {chosen} ", f" {other} ")
            hashed = 0xcbf29ce484222325
            for byte in changed.encode():
                hashed = (hashed ^ byte) * 0x100000001b3 % 2**64
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"collectives plans 1\n{changed} {hashed:x}\n")
            self.assertEqual(explained(COLL_PLANS=path), other)
            self.assertEqual(explained(COLL_PLANS="none"), chosen)
            self.assertEqual(explained(COLL_PLANS=path + "/plans"), chosen)  # below a file
            self.assertEqual(explained(COLL_PLANS="auto", XDG_CACHE_HOME=place), chosen)
            self.assertEqual(sums(place + "/collectives/plans"), made)
            # Another build makes its own. (Its ID is that of the library, not of the program.)
            library = os.path.join(os.path.dirname(COLL_PERF), "../src/libcollectives.so.0")
            with open(library, "rb") as file:
                code = bytearray(file.read())
            code[code.index(b"\3\0\0\0GNU\0") + 8] ^= 1
            with open(place + "/libcollectives.so.0", "wb") as file:
                file.write(code)
            self.assertEqual(explained(COLL_PLANS=path, LD_LIBRARY_PATH=place), chosen)
            self.assertEqual(len(sums(path)), 2)
            self.assertEqual(explained(COLL_PLANS=path), other)

    def test_refusals(self):
        # The command line is the same on all ranks: one speaks.
        for message, times, arguments in (
                ("-r 7: ranks here go from 0 to 1", 1, ["-r", "7"]),
                ("cannot be written", 1, ["--json", "/nowhere/x", "-n", "1"]),
                ("unknown algorithm", 1, ["--algorithm", "nonsense"]),
                ("unknown algorithm", 1, ["--algorithm", "nonsense", "-g", "3"]),
                ("unknown transport", 1, ["--transports", "nonsense"]),
                ("cannot do all_reduce", 1, ["--algorithm", "all_reduce=bruck"]),
                ("0 is not a number of ranks of a process, from 1 to 1024", 1, ["-g", "0"]),
                ("'xor' is not a reduction", 1, ["-o", "xor"])):
            done = ranks(2, "--sizes", "8", *arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertEqual(done.stderr.count(message), times, done.stderr)

    def test_what_only_some_ranks_have_wrong_they_say(self):
        done = run(COLL_RUN, "-n", "2", "--grace", "1", "--", "sh", "-c",
                   'export COLL_LANES=$((RANK + 1))x; [ $RANK = 1 ] || unset COLL_LANES; exec "$0" --sizes 8', COLL_PERF)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertRegex(done.stderr, r"(?m)^coll-perf: rank 1: joining .*COLL_LANES=2x")
        done = run(COLL_RUN, "-n", "2", "--grace", "1", "--", "sh", "-c", 'exec "$0" --sizes 8 -g $((RANK + 2))', COLL_PERF)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertEqual(done.stderr.count("-g is 2 in one process and 3 in another: give all the same"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
