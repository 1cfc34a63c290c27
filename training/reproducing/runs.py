# SPDX-License-Identifier: Apache-2.0
# Starts coll-train, and reads what it leaves: the report, the weights, and when its log had which step.
import array
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time


class Run:
    """What a run left. `seen`: (seconds since the command was started, line of the log) of each step."""

    def __init__(self, folder, seen):
        self.folder, self.seen = folder, seen
        with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
            self.report = json.load(file)
        self.summary = self.report["summary"]

    def first_below(self, loss):
        """When a validation first had a lower loss: (seconds, step), or None."""
        return next(((seconds, step["step"]) for seconds, step in self.seen
                     if step.get("validation_loss", loss) < loss), None)

    def _weights_bytes(self):
        with open(os.path.join(self.folder, "weights.safetensors"), "rb") as file:
            return file.read()

    def sha256(self):
        return hashlib.sha256(self._weights_bytes()).hexdigest()

    def weights(self):
        data = self._weights_bytes()
        return array.array("f", data[8 + int.from_bytes(data[:8], "little"):])


class Runs:
    def __init__(self, options, results):
        self.options, self.results = options, results

    def steps(self, count):
        return count // 10 if self.options.short else count

    def train(self, name, ranks, *arguments):
        folder = os.path.join(self.options.out, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        log = os.path.join(folder, "steps.jsonl")
        words = [str(word) for word in arguments]
        command = [self.options.coll_run, "-n", str(ranks), "--", self.options.coll_train, *words, "--quiet",
                   "--report", folder, "--log", log, "--export", os.path.join(folder, "weights.safetensors")]
        began = time.monotonic()
        seen = []
        with subprocess.Popen(command) as process:
            while process.poll() is None:
                time.sleep(0.02)
                self._read_on(log, seen, time.monotonic() - began)
        self._read_on(log, seen, time.monotonic() - began)
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)} failed with {process.returncode}")
        self.results.run(name, f"coll-run -n {ranks} -- coll-train {' '.join(words)}", time.monotonic() - began)
        return Run(folder, seen)

    @staticmethod
    def _read_on(log, seen, seconds):
        if not os.path.exists(log):
            return
        with open(log, encoding="utf-8") as file:
            complete = file.read().split("\n")[:-1]
        seen += [(seconds, json.loads(line)) for line in complete[len(seen):]]
