# SPDX-License-Identifier: Apache-2.0
# Coll-perf on buffers in a GPU's memory, under the emulated driver: what is measured, against what,
# and what it says where there is no GPU.
"""usage: coll_perf_gpu_test.py COLL_RUN COLL_PERF"""
import json
import os
import subprocess
import sys
import unittest

COLL_RUN, COLL_PERF = sys.argv[1:3]
LAUNCHERS = ("COLL_RANK", "RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")


def run(*command, **changed):
    environment = {k: v for k, v in os.environ.items() if k not in LAUNCHERS} | changed
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)


def ranks(count, *arguments, **changed):
    return run(COLL_RUN, "-n", str(count), "--timeout", "100", "--", COLL_PERF, *arguments, **changed)


def measured(count, *arguments, **changed):
    """(the JSON, the table) of a run that succeeds."""
    done = ranks(count, *arguments, "-n", "1", "-w", "0", "--batches", "1", "--json", "-", **changed)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return json.loads(done.stdout), done.stderr


class Gpu(unittest.TestCase):
    def test_every_operation_is_right_in_a_gpu_s_memory(self):
        result, _ = measured(3, "--device", "cuda", "-t", "all", "-d", "float,int8,bfloat16", "-r", "all",
                             "--sizes", "0,48,5000,600K")
        self.assertEqual((result["ranks"], result["wrong"], result["memory"]), (3, 0, "cuda"))
        types, sizes, roots = 3, 4, 3
        forms = 2 * 5 + 2 * 6 * roots + 5  # of no root and of one, each also in place; of no such form
        self.assertEqual(len(result["results"]), forms * types * sizes + 1)

    def test_calls_together_and_on_streams_are_right_too(self):
        for more in (["--stream", "--percentiles"], ["--group", "3"], ["--inflight", "2"],
                     ["--group", "3", "--coalesce"], ["--overlap", "work"], ["-c", "2"],
                     ["-R", "2"]):
            result, _ = measured(2, "--device", "cuda", "-t", "all_reduce,all_gather", "--sizes", "8,100K", *more)
            self.assertEqual((result["wrong"], len(result["results"])), (0, 8), more)

    def test_buffers_lie_where_it_says(self):
        """Calls on a GPU's buffers copy them; the emulated device has no room for two of these."""
        done = ranks(1, "--device", "cuda", "--sizes", "150M", "-n", "1")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"--device cuda:0: allocating 157286464 bytes, of \d+ that are free; .*"
                                      "CUDA_ERROR_OUT_OF_MEMORY")
        done = ranks(1, "--sizes", "150M", "-n", "1", "-w", "0", "--batches", "1", "-c", "0")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_ranks_take_the_devices_in_turn_and_share_by_uuid(self):
        result, table = measured(3, "--device", "cuda", "--sizes", "8")
        self.assertEqual([gpu["ranks"] for gpu in result["gpus"]], [[0, 2], [1]])
        self.assertEqual(len({gpu["uuid"] for gpu in result["gpus"]}), 2)
        self.assertRegex(table, r"rank +1 on \S+ pid \d+ cuda:1 \[0000:18:00.0\] Emulated GPU")
        result, table = measured(3, "--device", "cuda:1", "--sizes", "8")
        self.assertEqual([gpu["ranks"] for gpu in result["gpus"]], [[0, 1, 2]])
        self.assertEqual([gpu["bus"] for gpu in result["gpus"]], ["0000:18:00.0"])
        # One process per device number, and yet one GPU: the UUID tells.
        result, _ = measured(2, "--device", "cuda", "--sizes", "8", EMUCUDA_DEVICES="1")
        self.assertEqual([gpu["ranks"] for gpu in result["gpus"]], [[0, 1]])

    def test_devices_of_one_number_may_be_two(self):
        """As on two hosts, or with other visible devices: only the UUID tells."""
        done = run(COLL_RUN, "-n", "2", "--timeout", "100", "--", "sh", "-c",
                   'EMUCUDA_UUID=0123456789abcdef000000000000ab0$LOCAL_RANK exec "$0" "$@"', COLL_PERF, "--device",
                   "cuda:0", "--sizes", "8", "-n", "1", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        gpus = json.loads(done.stdout)["gpus"]
        self.assertEqual([(gpu["uuid"], gpu["ranks"]) for gpu in gpus],
                         [("GPU-01234567-89ab-cdef-0000-00000000ab00", [0]),
                          ("GPU-01234567-89ab-cdef-0000-00000000ab01", [1])])

    def test_threads_take_the_devices_in_turn_too(self):
        few = ["-n", "1", "-w", "0", "--batches", "1", "--json", "-"]
        for processes, device, users in ((0, "cuda", [[0, 2], [1]]), (0, "cuda:1", [[0, 1, 2]]),
                                         (2, "cuda", [[0, 2, 4], [1, 3, 5]])):
            command = ["--device", device, "-g", "3", "--sizes", "8,64K", *few]
            done = ranks(processes, *command) if processes else run(COLL_PERF, *command)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            self.assertEqual((result["ranks_per_process"], result["wrong"], len(result["results"])), (3, 0, 4))
            self.assertEqual([gpu["ranks"] for gpu in result["gpus"]], users)

    def test_every_operation_is_right_between_threads(self):
        for peers in ("1", "0"):  # by fused kernels, and by streams
            done = run(COLL_PERF, "--device", "cuda", "-g", "2", "-t", "all", "-r", "all", "--sizes", "48,20K", "-n", "1",
                       "-w", "0", "--batches", "1", "--json", "-", EMUCUDA_PEERS=peers)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            self.assertEqual((result["ranks"], result["wrong"]), (2, 0))

    def test_the_limit_is_what_copies_reach(self):
        result, table = measured(2, "--device", "cuda:0", "-t", "all_reduce,all_gather,barrier", "--sizes", "1M")
        gpu, = result["gpus"]
        # The longest is a power of two, and at most a quarter of what communicators leave of 256 MiB.
        self.assertEqual([copy["bytes"] for copy in gpu["copies"]], [32 << 20, 16 << 20, 8 << 20])
        self.assertEqual(gpu["limit_GBps"], max(copy["moved_GBps"] for copy in gpu["copies"]))
        self.assertGreater(gpu["limit_GBps"], 0)
        self.assertRegex(table, r"GPU-[0-9a-f-]{36} of 2 ranks copies [\d.]+ GB/s")
        self.assertRegex(table, r"#wrong +limit ")
        *reduced, barrier = result["results"]
        self.assertEqual([each["gpu"]["bytes"] >> 10 for each in reduced],
                         [4096, 4096,  # two ranks read and write 1 MiB
                          3072, 2048])  # they read 512 KiB, and write 1 MiB or, in place, half of that
        for each in reduced:
            part = each["gpu"]["bytes"] / (each["time_us"] * 1e3) / gpu["limit_GBps"]
            self.assertAlmostEqual(each["gpu"]["limit_percent"], 100 * part, delta=0.001 * 100 * part)
        self.assertEqual(barrier["gpu"], {"bytes": 0, "limit_percent": 0})

    def test_host_memory_is_the_default_and_knows_no_gpu(self):
        result, table = measured(2, "--sizes", "8")
        self.assertEqual((result["memory"], result["gpus"]), ("host", []))
        self.assertNotIn("gpu", result["results"][0])
        self.assertNotIn("limit", table)
        self.assertNotIn("cuda", table)

    def test_what_is_not_there_is_named(self):
        for message, arguments, changed in (  # threads too say it once
                (r"--device cuda:2: there is no device 2: this process sees 2 CUDA devices$", "cuda:2", {}),
                (r"--device cuda:9: .* sees 2 CUDA devices \(CUDA_VISIBLE_DEVICES is \"0,1\"\)$", "cuda:9",
                 {"CUDA_VISIBLE_DEVICES": "0,1"}),
                (r"--device cuda: cuInit: CUDA_ERROR_NO_DEVICE", "cuda", {"EMUCUDA_DEVICES": "0"})):
            for threads in ("1", "3"):
                done = run(COLL_PERF, "--device", arguments, "--sizes", "8", "-g", threads, **changed)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertRegex(done.stderr.strip(), r"\Acoll-perf: " + message)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_without_a_driver_it_says_what_it_looked_for(self):
        # The real one may be there, elsewhere than the emulated one.
        there = run(sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')", LD_LIBRARY_PATH="")
        if there.returncode == 0:
            self.skipTest("this machine has a driver")
        done = run(COLL_PERF, "--device", "cuda", "--sizes", "8", LD_LIBRARY_PATH="")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("coll-perf: --device cuda: there is no CUDA driver: libcuda.so.1: cannot open", done.stderr)
        # To explain takes no device.
        done = run(COLL_PERF, "--device", "cuda", "--sizes", "8", "--explain", LD_LIBRARY_PATH="")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
