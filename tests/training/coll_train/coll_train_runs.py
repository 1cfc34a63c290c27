# SPDX-License-Identifier: Apache-2.0
# Starts coll-train for tests, and reads what it left: logs, weights, messages.
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TRAIN, RUN = sys.argv[2:4]
SMALL = ("--data", "markov:8", "--layers", "2", "--channels", "32", "--heads", "2", "--tokens",
         "16", "--sequences", "4")
LAUNCHERS = ("COLL_", "SLURM_", "PMI", "OMPI_", "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_")


def clean(**more):
    """The environment without what a launcher of the tests set."""
    kept = {name: value for name, value in os.environ.items()
            if name == "COLL_TUNING" or not name.startswith(LAUNCHERS)}
    return kept | more


def rank_processes(launcher):
    """The processes of coll-run's ranks, {rank: pid}; a keeper may be between."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii") as stat:
                parent = int(stat.read().rsplit(")", 1)[1].split()[1])
            children.setdefault(parent, []).append(int(name))
        except (FileNotFoundError, ProcessLookupError):
            pass
    found, left = {}, [launcher]
    while left:
        for pid in children.get(left.pop(), []):
            left.append(pid)
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as line:
                    command = line.read().split(b"\0")[0].decode()
                with open(f"/proc/{pid}/environ", "rb") as environment:
                    variables = environment.read().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            rank = [word for word in variables if word.startswith(b"RANK=")]
            if command == TRAIN and rank:
                found[int(rank[0][5:])] = pid
    return found


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class TrainTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, ranks, *options, run=(), **environment):
        small = [word for pair in zip(SMALL[::2], SMALL[1::2]) if pair[0] not in options
                 for word in pair]
        return subprocess.Popen([RUN, "-n", str(ranks), *run, "--", TRAIN, *small, *options],
                                text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=clean(**environment))

    def train(self, ranks, *options, expect=0, run=(), **environment):
        """Standard output and standard error of a whole run."""
        process = self.start(ranks, *options, run=run, **environment)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, expect, out + err)
        return out, err

    def result(self, ranks, *options, name="run", **more):
        """The exported weights, and the loss of each step."""
        log, weights = self.path(name + ".jsonl"), self.path(name + ".safetensors")
        self.train(ranks, *options, "--quiet", "--log", log, "--export", weights, **more)
        return self.read(weights), self.losses(log)

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    def records(self, log):
        with open(log, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def losses(self, log):
        """{step: loss}. Steps that were done twice must have had the same loss."""
        found = {}
        for record in self.records(log):
            loss = record["loss"], record["grad_norm"]
            self.assertEqual(found.setdefault(record["step"], loss), loss)
        return found

    def wait_for_steps(self, process, log, steps):
        """Until the log has so many lines."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            self.assertIsNone(process.poll(), "the run is over too early")
            if os.path.exists(log) and self.read(log).count(b"\n") >= steps:
                return
            time.sleep(0.002)
        self.fail(f"no {steps} steps in {log}")

    def hit(self, process, rank, number=signal.SIGKILL):
        """Sends the rank a signal. Returns the seconds until the others, but not those stopped,
        have ended, and what the job said."""
        ranks = rank_processes(process.pid)
        os.kill(ranks.pop(rank), number)
        begin = time.monotonic()
        while any(map(is_running, ranks.values())) and time.monotonic() < begin + 60:
            time.sleep(0.001)
        seconds = time.monotonic() - begin
        out, err = process.communicate(timeout=60)
        return seconds, out, err
