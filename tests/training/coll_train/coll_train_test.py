# SPDX-License-Identifier: Apache-2.0
# Coll-train as a program: its bits, its limit of memory, its launchers, its options, its files.
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import time
import xml.etree.ElementTree

sys.path.insert(0, sys.argv[1])
import tap  # noqa: E402
import tensorboard_events  # noqa: E402
from coll_train_runs import RUN, SMALL, TRAIN, TrainTest, clean  # noqa: E402

STEPS = ("--steps", "8")


class Bits(TrainTest):
    def expect_same(self, runs):
        weights, losses = self.result(1, *STEPS)
        self.assertEqual(sorted(losses), list(range(1, 9)))
        for ranks, options in runs:
            got, got_losses = self.result(ranks, *STEPS, *options)
            self.assertEqual(got_losses, losses, (ranks, options))
            self.assertTrue(got == weights, (ranks, options))

    def test_any_number_of_ranks_and_any_stage(self):
        self.expect_same([(ranks, ("--zero", str(zero)))
                          for ranks in (1, 2, 4) for zero in range(4)])

    def test_offload_and_checkpoints_of_activations(self):
        self.expect_same([(ranks, ("--zero", zero, "--offload", place))
                          for ranks, zero in ((1, "0"), (2, "2"), (4, "1"))
                          for place in ("cpu", self.folder)]
                         + [(2, ("--checkpoint-activations", "1")),
                            (2, ("--checkpoint-activations", "2", "--zero", "3")),
                            (2, ("--checkpoint-activations", "1", "--offload-activations")),
                            (4, ("--checkpoint-activations", "1", "--offload-activations", "--pp",
                                 "2", "--zero", "3", "--offload", "cpu"))])

    def test_delayed_updates(self):
        late = *STEPS, "--delay-updates", "3", "--save-every", "4", "--save"
        weights, losses = self.result(1, *late, self.path("first"), "--offload", "cpu")
        self.assertNotEqual(losses, self.result(1, *STEPS)[1])
        for ranks, zero, place in ((2, "0", "cpu"), (2, "3", self.folder), (4, "2", "cpu")):
            saved = self.path(f"{ranks}-{zero}")
            got = self.result(ranks, *late, saved, "--zero", zero, "--offload", place)
            self.assertEqual(got, (weights, losses), (ranks, zero, place))
            # Without what came after step 4, the run does it again.
            shutil.rmtree(os.path.join(saved, "step-000008"))
            got = self.result(ranks, *late, saved, "--zero", zero, "--offload", place, name="again")
            self.assertEqual(got[0], weights)
            self.assertEqual(got[1], {step: losses[step] for step in (5, 6, 7, 8)})

    def test_a_pipeline(self):
        self.expect_same([(2, ("--pp", "2")), (4, ("--pp", "4", "--schedule", "gpipe")),
                          (4, ("--pp", "2", "--zero", "3")),
                          (4, ("--pp", "2", "--zero", "1", "--offload", "cpu"))])

    def test_tensor_parallelism_is_close(self):
        weights, losses = self.result(1, *STEPS)
        for ranks, options in ((2, ("--tp", "2")), (8, ("--dp", "2", "--tp", "2", "--pp", "2"))):
            got, got_losses = self.result(ranks, *STEPS, *options)
            self.assertEqual(len(got), len(weights), options)
            for step, (loss, norm) in losses.items():
                self.assertAlmostEqual(got_losses[step][0], loss, delta=1e-4)
                self.assertAlmostEqual(got_losses[step][1], norm, delta=1e-3)

    def test_exported_weights_are_read_again(self):
        weights, _ = self.result(2, *STEPS, "--zero", "2")
        first = self.path("run.safetensors")
        again, _ = self.result(4, "--steps", "0", "--init", first, name="again")
        self.assertEqual(again, weights)
        head = int.from_bytes(weights[:8], "little")
        tensors = json.loads(weights[8:8 + head])
        self.assertEqual(max(entry["data_offsets"][1] for name, entry in tensors.items()
                             if name != "__metadata__"), len(weights) - 8 - head)


class Memory(TrainTest):
    def peak(self, *options):
        self.result(4, *STEPS, *options, name="peak")
        return self.records(self.path("peak.jsonl"))[-1]["memory_peak_of_all_bytes"]

    def test_a_limit_is_met_by_offload_or_by_a_higher_stage(self):
        whole = self.peak()
        less = [("--zero", "1"), ("--offload", "cpu"), ("--zero", "1", "--offload", "cpu")]
        limit = str(max(self.peak(*options) for options in less))
        self.assertLess(int(limit), whole)
        weights, losses = self.result(4, *STEPS)
        _, err = self.train(4, *STEPS, "--device-memory", limit, expect=2)
        self.assertRegex(err, rf"coll-train: \d+ bytes for \w+ do not fit the limit of {limit} "
                              r"bytes. In use: parameters \d+, gradients \d+, optimizer \d+, ")
        self.assertEqual(err.count("do not fit"), 1, err)
        for options in less:
            self.assertEqual(self.result(4, *STEPS, *options, "--device-memory", limit),
                             (weights, losses), options)


class Launchers(TrainTest):
    def expect_two(self, command, **environment):
        done = subprocess.run([*command, TRAIN, *SMALL, *STEPS], text=True, check=False,
                              timeout=100, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=clean(OMPI_ALLOW_RUN_AS_ROOT="1",
                                        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **environment))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stdout.count("2: 2 data x 1 tensor x 1 pipeline"), 1, done.stdout)

    def expect_two_by_hand(self, variables, **more):
        """Each rank is started with its own variables."""
        ranks = [subprocess.Popen([TRAIN, *SMALL, *STEPS], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT,
                                  env=clean(**{name: str(rank) for name in variables}, **more))
                 for rank in range(2)]
        said = "".join(rank.communicate(timeout=100)[0] for rank in ranks)
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
        self.assertEqual(said.count("2: 2 data x 1 tensor x 1 pipeline"), 1, said)

    def need(self, program):
        if not shutil.which(program):
            self.skipTest(f"{program} is not installed")
        return program

    def test_coll_run_by_a_file(self):
        self.expect_two([RUN, "-n", "2", "--rendezvous", "file", "--"])

    def test_open_mpi(self):
        self.expect_two([self.need("mpirun.openmpi"), "--oversubscribe", "-n", "2"],
                        ASAN_OPTIONS="detect_leaks=0")

    def test_mpich(self):
        self.expect_two([self.need("mpiexec.hydra"), "-n", "2"])

    def test_variables_of_torchrun(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.expect_two_by_hand(("RANK", "LOCAL_RANK"), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2",
                                MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))

    def test_variables_of_slurm(self):
        self.expect_two_by_hand(("SLURM_PROCID", "SLURM_LOCALID"), SLURM_NTASKS="2",
                                SLURM_JOB_ID=str(os.getpid()), SLURM_STEP_ID="0",
                                SLURM_STEP_NODELIST="127.0.0.1")

    def test_without_a_launcher(self):
        done = subprocess.run([TRAIN, *SMALL], text=True, check=False, env=clean(), timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("start with coll-run", done.stderr)


class Options(TrainTest):
    def say(self, *options, code=0):
        done = subprocess.run([TRAIN, *options], text=True, check=False, env=clean(), timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout, done.stderr

    def test_virtual_compute_takes_its_time(self):
        """Each rank has 4 micro-batches in 4 units: 1 ms forward, 2 ms back."""
        log = self.path("log")
        self.train(2, "--steps", "3", "--compute", "sleep:1000", "--log", log)
        with open(log, encoding="utf-8") as lines:
            for line in lines:
                step = json.loads(line)
                self.assertGreaterEqual(step["forward_seconds"] + step["backward_seconds"], 0.045)

    def test_help_explains_every_group(self):
        text, _ = self.say("--help")
        for word in ("Model and data", "Run", "Ranks", "Memory", "Files", "Instead of a run",
                     "coll-run -n 2", "--zero", "--offload", "--save", "--export", "--estimate"):
            self.assertIn(word, text)
        self.assertNotIn("->", text, "a name in a list of choices")
        for line in text.splitlines():
            self.assertLess(len(line), 120, line)

    def test_estimate_prints_a_row_for_each_stage(self):
        text, _ = self.say(*SMALL, "--estimate", "--dp", "4", "--zero", "2")
        self.assertIn("26496 parameters, 4 data-parallel ranks", text)
        rows = [line.split()[0] for line in text.splitlines() if line.strip()[:1] in "*0123"]
        self.assertEqual(rows[-4:], ["0", "1", "*2", "3"])
        self.assertNotIn("host memory", text)
        text, _ = self.say(*SMALL, "--estimate", "--dp", "4", "--checkpoint-activations", "1",
                           "--offload-activations")
        # 3 outputs of 4 x 16 rows of 32 channels; a rank has 2 micro-batches.
        self.assertIn("activations in host memory: 24576 B on one rank; each step moves 49152 B "
                      "there, and as many back", text)

    def test_bad_options_are_refused_by_one_line(self):
        cases = [(("--zero", "4"), "--zero"), (("--dp", "3"), "3 data x 1 tensor x 1 pipeline"),
                 (("--tp", "3"), "3 tensor x .* but 2 were started"), (("--wat",), "--wat"),
                 (("--save-every", "3"), "--save-every needs --save"),
                 (("--micro-batches", "0"), "--micro-batches"),
                 (("--offload-activations",),
                  "--offload-activations needs --checkpoint-activations K"),
                 (("--export", "/nowhere/file"), "--export: there is no folder /nowhere"),
                 (("--delay-updates", "9"), "--delay-updates needs --offload, cpu or a folder"),
                 (("--offload", "/nowhere"), "--offload: there is no folder /nowhere"),
                 (("--model", "mlp"), "--model mlp cannot learn from --data markov:8"),
                 (("--data", "foo"), "--data foo: it is not known"),
                 (("--heads", "3"), "32 channels cannot be split into 3 heads"),
                 (("--hook", "gzip"), "\"gzip\" is no communication hook"),
                 (("--weights", "f8"), "--weights: f8 not in"),
                 (("--init", self.path("none")), "none is missing")]
        for options, reason in cases:
            out, err = self.train(2, *options, expect=1 if options[0] == "--init" else 2)
            lines = [line for line in err.splitlines() if not line.startswith("coll-run: ")]
            self.assertEqual((out, len(lines)), ("", 1), err)
            self.assertRegex(lines[0], f"\\Acoll-train: .*({reason})")

    def test_a_rank_whose_options_differ_is_named(self):
        shell = f'[ $RANK = 1 ] && wrong=--wat; exec {TRAIN} {" ".join(SMALL)} $wrong'
        done = subprocess.run([RUN, "-n", "3", "--", "sh", "-c", shell], text=True, env=clean(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("coll-train: "), 1, done.stderr)
        self.assertIn("coll-train: rank 1: The following argument was not expected: --wat",
                      done.stderr)


class Files(TrainTest):
    def test_all_are_there_and_well_formed(self):
        log, trace, metrics = map(self.path, ("log", "trace", "metrics"))
        out, err = self.train(2, *STEPS, "--json", "--report", self.path("report"), "--log", log,
                              "--prometheus", metrics, "--trace", trace, "--validate-every", "4")
        self.assertEqual(err, "")
        steps = self.records(log)
        self.assertEqual([record["step"] for record in steps], list(range(1, 9)))
        self.assertEqual(["validation_loss" in record for record in steps], 2 * [False] +
                         [False, True] + 3 * [False] + [True])
        with open(self.path("report/report.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), json.loads(out))
        for name in ("report.html", "loss.svg"):
            xml.etree.ElementTree.parse(self.path("report/" + name))
        text = self.read(metrics).decode()
        for line in filter(lambda line: not line.startswith("#"), text.splitlines()):
            self.assertRegex(line, r"\A[a-z_]+(\{.*\})? \S+\Z")
        self.assertEqual(sorted(os.listdir(self.folder)), ["log", "metrics", "report", "trace"])
        self.expect_rows(trace)

    def expect_rows(self, trace):
        with open(trace, encoding="utf-8") as file:
            events = json.load(file)
        events = events["traceEvents"] if isinstance(events, dict) else events
        spans = [event for event in events if event["ph"] == "X"]
        rows = {(event["pid"], event["tid"]) for event in spans}
        self.assertEqual(len(rows), 4, "two ranks, each with computation and communication")
        self.assertEqual(len({rank for rank, _ in rows}), 2)
        names = {event["name"].split()[0] for event in spans}
        self.assertLessEqual({"forward", "backward", "all_reduce"}, names)

    def expect_scalars(self, event, record):
        """The event has each number of the log's line, rounded to 32 bits, and nothing else."""
        numbers = {}
        for name, value in record.items():
            if isinstance(value, dict):
                numbers |= {f"{name}/{part}": number for part, number in value.items()}
            elif name not in ("step", "rank", "note"):
                numbers[name] = value
        numbers = {name: struct.unpack("<f", struct.pack("<f", value))[0]
                   for name, value in numbers.items()}
        self.assertEqual((event["step"], event["scalars"]), (record["step"], numbers))

    def test_tensorboard_has_the_numbers_of_the_log(self):
        log, folder = self.path("log"), self.path("board/run")
        began = time.time()
        self.train(2, *STEPS, "--log", log, "--tensorboard", folder, "--validate-every", "4")
        names = os.listdir(folder)
        self.assertEqual(len(names), 1)
        self.assertRegex(names[0], r"\Aevents\.out\.tfevents\.\d+\."
                         + re.escape(socket.gethostname()) + r"\Z")
        self.assertLess(abs(int(names[0].split(".")[3]) - began), 60)
        start, *steps = tensorboard_events.events(os.path.join(folder, names[0]))
        self.assertEqual((start["step"], start["session"]), (1, 1))
        records = self.records(log)
        self.assertEqual(len(steps), len(records))
        for event, record in zip(steps, records):
            self.expect_scalars(event, record)
        self.assertLessEqual({"loss", "learning_rate", "grad_norm", "tokens_per_second",
                              "exposed_seconds", "validation_loss", "validation_accuracy",
                              "memory_bytes/gradients"}, set(steps[-1]["scalars"]))
        times = [began - 1] + [event["wall_time"] for event in (start, *steps)] + [time.time() + 1]
        self.assertEqual(times, sorted(times))

    def test_a_run_that_goes_on_adds_a_file_for_tensorboard(self):
        log, folder = self.path("log"), self.path("board")
        for steps in ("3", "5"):
            self.train(2, "--steps", steps, "--log", log, "--tensorboard", folder, "--save",
                       self.path("kept"))
        names = sorted(os.listdir(folder))
        self.assertEqual(len(names), 2)
        found = [tensorboard_events.events(os.path.join(folder, name)) for name in names]
        self.assertEqual([[event["step"] for event in events] for events in found],
                         [[1, 1, 2, 3], [4, 4, 5]])
        self.assertEqual([events[0]["session"] for events in found], [1, 1])
        events = [event for events in found for event in events[1:]]
        for event, record in zip(events, self.records(log)):
            self.expect_scalars(event, record)

    # A chunk of the optimizer's file for each of several buckets.
    BUCKETS = ("--first-bucket", "4096", "--bucket", "16384")

    def offloaded(self, ranks, place, *options):
        """Spans of the rows of optimizer and storage: {(rank, step): [span]}, beginning first."""
        trace = self.path("trace")
        self.train(ranks, *STEPS, *self.BUCKETS, "--offload", place, "--trace", trace, *options)
        with open(trace, encoding="utf-8") as file:
            document = json.load(file)
        self.assertEqual(document["otherData"]["dropped"], 0)
        events = document["traceEvents"]
        rows = {(event["pid"], event["tid"]): event["args"]["name"].split()[0]
                for event in events if event["name"] == "thread_name"}
        found = {}
        for event in sorted((event for event in events if event["ph"] == "X"),
                            key=lambda event: event["ts"]):
            row = rows[event["pid"], event["tid"]]
            if row in ("optimizer", "storage"):
                self.assertEqual(row, "optimizer" if event["name"] == "adam" else "storage")
                found.setdefault((event["pid"], event["args"]["step"]), []).append(event)
        return found

    def expect_work(self, spans, names, size):
        self.assertEqual({span["name"] for span in spans}, set(names))
        for name in names:
            own = [span for span in spans if span["name"] == name]
            self.assertGreater(len(own), 3, "several buckets")
            self.assertEqual(sum(span["args"]["bytes"] for span in own), size, name)

    def test_the_trace_shows_what_an_offloaded_optimizer_does(self):
        """Each step reads, updates and writes all states once: of f32 m and v, in host memory also
        the weights."""
        for ranks, zero in ((1, "0"), (2, "0"), (2, "1")):
            options = ("--zero", zero)
            self.result(ranks, *STEPS, *self.BUCKETS, *options, name="device")
            states = self.records(self.path("device.jsonl"))[-1]["memory_bytes"]["optimizer"]
            steps = [(rank, step) for rank in range(ranks) for step in range(1, 9)]
            in_file = self.offloaded(ranks, self.folder, *options)
            self.assertEqual(sorted(in_file), steps)
            in_memory = self.offloaded(ranks, "cpu", *options)
            self.assertEqual(sorted(in_memory), steps)
            for step in steps:
                self.expect_work(in_file[step], ("read", "adam", "write"), states)
                self.expect_work(in_memory[step], ("adam",), states // 8 * 12)

    def test_json_is_all_of_standard_output(self):
        out, _ = self.train(2, *STEPS, "--json", "--save", self.path("kept"))
        json.loads(out)
        out, err = self.train(2, *STEPS, "--quiet", "--save", self.path("kept"))
        self.assertEqual((out, err), ("", ""))


if __name__ == "__main__":
    tap.main()
