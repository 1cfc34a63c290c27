#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Runs PyTorch's own DistributedTest, from the installed package, over a backend.
"""usage: pytorch_suite.py [--backend NAME] [--ranks N] [--limit SECONDS] [test…]

Tests that run only for a backend called "gloo" run over the plugin in gloo's place; all others run
under the plugin's own name. The last line is "N passed, N failed". Red is
- a test that fails and is not in pytorch_exceptions.txt,
- a test that passes although it is there,
- a run in which fewer tests passed than EXPECTED.
A rank that hangs shows its stacks and fails its test.
"""
import argparse
import faulthandler
import json
import multiprocessing.connection
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
# How many tests pass at least, by the number of ranks: what gloo passes.
EXPECTED = {2: 89, 3: 89, 4: 92, 8: 110}
GRACE = 3.0  # seconds that ranks have to end after one has failed


def read_exceptions(ranks):
    """Test -> reason, of the lines that hold for this number of ranks."""
    found = {}
    with open(os.path.join(HERE, "pytorch_exceptions.txt"), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                test, where, reason = line.split(None, 2)
                if where == "all" or str(ranks) in where.split(","):
                    found[test] = reason.strip()
    return found


# --- one process for one name: it imports torch once and forks the ranks of each test ---


def forbid_what_needs_devices(common):
    """Skips in the parent what every rank would skip by itself, a second of processes later."""
    skip = lambda reason: lambda function: unittest.skip(reason)(function)
    ranks = int(os.environ["WORLD_SIZE"])
    original = common.skip_if_lt_x_gpu
    common.skip_if_no_gpu = skip("needs a GPU")
    common.skip_if_lt_x_gpu = lambda x, *, allow_cpu=False: (
        original(x, allow_cpu=True) if allow_cpu else skip("needs a GPU"))
    if ranks < 8:
        common.skip_if_small_worldsize = skip("needs 8 ranks")
    if ranks % 2:
        common.skip_if_odd_worldsize = skip("needs an even number of ranks")


def load_suite(backend, stands_for):
    """The test class, for ranks that are forked, with bounded time, checked exit codes and stacks."""
    import torch
    import torch.distributed as dist
    import torch.testing._internal.common_distributed as common
    forbid_what_needs_devices(common)
    for feature in ("ddp", "plugin", "subgroup"):
        common.DistTestCases.backend_feature[feature].add(backend)
    dist.Backend(backend)  # loads the plugin by its entry point
    if stands_for:
        from collectives_torch import stand_for
        stand_for(stands_for)
    import torch.testing._internal.distributed.distributed_test as suite
    suite.PROFILING_SUPPORTED_BACKENDS.append(backend)
    suite.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.append(backend)

    class Suite(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        limit = 60.0

        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        def tearDown(self):
            for process in self.processes:
                process.kill()
                process.join()
            super().tearDown()

        def _join_processes(self, fn):
            hung = wait_for_ranks(self.processes, self.limit)
            skips = {skip.exit_code: skip.message for skip in common.TEST_SKIPS.values()}
            codes = [process.exitcode for process in self.processes]
            errors = []
            for rank, process in enumerate(self.processes):
                pipe = self.pid_to_pipe[process.pid]
                if rank in hung:
                    errors.append(f"rank {rank} did not end; its stacks are above")
                elif codes[rank] == self.TEST_ERROR_EXIT_CODE and pipe.poll():
                    errors.append(f"rank {rank} raised:\n{pipe.recv()}")
                elif codes[rank] != 0 and codes[rank] not in skips:
                    errors.append(f"rank {rank} ended with {codes[rank]}")
                pipe.close()
            if errors and fn not in self.skip_return_code_checks:
                raise AssertionError("\n".join(errors))
            skipped = [skips[code] for code in codes if code in skips]
            if len(skipped) == len(codes):
                raise unittest.SkipTest(skipped[0])
            if skipped:
                raise AssertionError(f"only some ranks skipped the test: {codes}")

    return Suite


def wait_for_ranks(processes, limit):
    """Waits until all have ended; the ranks that did not in time show their stacks and are killed."""
    end = time.monotonic() + limit
    while alive := [p for p in processes if p.exitcode is None]:
        if any(p.exitcode not in (None, 0) for p in processes):
            end = min(end, time.monotonic() + GRACE)
        left = end - time.monotonic()
        if left <= 0:
            break
        multiprocessing.connection.wait([p.sentinel for p in alive], left)
    hung = [rank for rank, p in enumerate(processes) if p.exitcode is None]
    for rank in hung:
        os.kill(processes[rank].pid, signal.SIGUSR1)  # faulthandler writes to the test's output
    end = time.monotonic() + 1.0
    for rank in hung:
        processes[rank].join(max(0.0, end - time.monotonic()))
        processes[rank].kill()
    return hung


def run_one(suite, name, output):
    """Runs a test with its output in a file: ("passed" | "failed" | "skipped", text, seconds)."""
    saved = os.dup(1), os.dup(2)
    output.seek(0)
    output.truncate()
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    result, begin = unittest.TestResult(), time.monotonic()
    try:
        suite(name).run(result)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, descriptor in zip((1, 2), saved):
            os.dup2(descriptor, number)
            os.close(descriptor)
    seconds = time.monotonic() - begin
    if result.skipped:
        return "skipped", result.skipped[0][1], seconds
    if result.errors or result.failures:
        output.seek(0)
        said = output.read().decode(errors="replace")
        return "failed", said[-12000:] + (result.errors + result.failures)[0][1], seconds
    return "passed", "", seconds


def run_named(arguments):
    """The child: runs the tests of one name and prints a JSON line for each."""
    os.environ.update(BACKEND=arguments.stands_for or arguments.backend,
                      WORLD_SIZE=str(arguments.ranks), OMP_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TEMP_DIR"] = folder
        for name in ("barrier", "test_dir"):
            os.mkdir(os.path.join(folder, name))
        suite = load_suite(arguments.backend, arguments.stands_for)
    suite.limit = arguments.limit
    suite.setUpClass()
    reports = os.fdopen(os.dup(1), "w", buffering=1)
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
    with tempfile.TemporaryFile() as output:
        for name in arguments.tests or unittest.TestLoader().getTestCaseNames(suite):
            method = getattr(suite, name)
            if getattr(method, "__unittest_skip__", False):
                outcome = "asks for another", method.__unittest_skip_why__, 0.0
                if method.__unittest_skip_why__.startswith("needs "):
                    outcome = "skipped", *outcome[1:]
            else:
                outcome = run_one(suite, name, output)
            print(json.dumps([name, *outcome]), file=reports)
    os._exit(0)


# --- the judge ---


def results_of(arguments, stands_for, tests):
    """Runs a child for one name, shows its progress, and returns test -> outcome."""
    command = [sys.executable, __file__, "--child", "--backend", arguments.backend, "--ranks",
               str(arguments.ranks), "--limit", str(arguments.limit)]
    command += ["--stands-for", stands_for] if stands_for else []
    found = {}
    with subprocess.Popen(command + tests, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            name, outcome, text, seconds = json.loads(line)
            found[name] = outcome
            if outcome in ("passed", "failed"):
                print(f"{outcome} {seconds:5.1f} s  {name}"
                      + (f"  (in place of {stands_for})" if stands_for else ""), flush=True)
            if outcome == "failed":
                print(text, flush=True)
    if child.returncode != 0:
        found[f"the run{' in place of ' + stands_for if stands_for else ''}"] = "failed"
        print(f"the run ended with {child.returncode}")
    return found


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--backend", default="coll")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--stands-for", help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("tests", nargs="*")
    arguments = parser.parse_args()
    if arguments.child:
        run_named(arguments)
    results = results_of(arguments, None, arguments.tests)
    others = sorted(name for name, outcome in results.items() if outcome == "asks for another")
    if others and arguments.backend != "gloo":
        results.update(results_of(arguments, "gloo", others))
    exceptions = read_exceptions(arguments.ranks) if arguments.backend != "gloo" else {}
    named = lambda outcome: sorted(name for name, is_ in results.items() if is_ == outcome)
    passed, failed = named("passed"), named("failed")
    wrong = [f"{name} failed" for name in failed if name not in exceptions]
    wrong += [f"{name} passes: take it from the exceptions" for name in passed if name in exceptions]
    expected = EXPECTED.get(arguments.ranks, 0) if not arguments.tests else 0
    if len(passed) < expected:
        wrong.append(f"{len(passed)} tests passed, {expected} were expected")
    for name in failed:
        if name in exceptions:
            print(f"expected to fail: {name} ({exceptions[name]})")
    print(*wrong, sep="\n")
    print(f"skipped: {len(results) - len(passed) - len(failed)} (other backends, GPUs, more ranks)")
    print(f"{len(passed)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
