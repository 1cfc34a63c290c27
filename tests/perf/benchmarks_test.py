# SPDX-License-Identifier: Apache-2.0
# Each layer's benchmark runs; how fast is not asked.
"""usage: benchmarks_test.py BENCHMARK…: the programs that were built"""
import json
import os
import subprocess
import sys
import unittest

PROGRAMS = {os.path.basename(path): path for path in sys.argv[1:]}
# One of every kind, as short as they come.
KINDS = {
    "reduce-benchmark": "^(memcpy|sum/f32)/8B$",
    "connection-benchmark": "^(raw_line|(process_)?ping_pong/[a-z_]+/8)/",
    "executor-benchmark": "^(one_rank/8|two_ranks/[a-z_]+/(8|65536)|(cut|plan|bind)/2|build/ring/8)/",
    "topology-benchmark": "^(read_cluster/32|search_(cluster/32|host/8)|pack_host/8|print_cluster/32)",
    "rendezvous-benchmark": "^[a-z_]+/16/",
    "collective-benchmark": "^((one|two)_ranks?/[a-z_]+/8|.*call.*|requests/(1|64))/",
    "adam-benchmark": "^(triad|scalar|kernel)/1048576/2/",
    "offload-benchmark": "^(memory|file/threads|host/1.2e|fetch)",
}
LEAST = {"reduce-benchmark": 2, "connection-benchmark": 5, "executor-benchmark": 9,
         "topology-benchmark": 5, "rendezvous-benchmark": 4,
         "collective-benchmark": 24, "adam-benchmark": 3, "offload-benchmark": 5}


class Benchmarks(unittest.TestCase):
    def check(self, name):
        if name not in PROGRAMS:
            self.skipTest(f"{name} is not built")
        done = subprocess.run([PROGRAMS[name], f"--benchmark_filter={KINDS[name]}",
                               "--benchmark_format=json"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        results = json.loads(done.stdout)["benchmarks"]
        for result in results:
            self.assertNotIn("error_message", result, result["name"])
        kinds = {result["run_name"] for result in results}
        self.assertGreaterEqual(len(kinds), LEAST[name], kinds)


for program in KINDS:
    setattr(Benchmarks, "test_" + program.replace("-", "_"),
            lambda self, name=program: self.check(name))

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
