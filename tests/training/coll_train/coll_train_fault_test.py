# SPDX-License-Identifier: Apache-2.0
# Coll-train's runs that are stopped, killed and started again: the same weights in the end.
import os
import random
import re
import shutil
import signal
import sys
import time

sys.path.insert(0, sys.argv[1])
import tap  # noqa: E402
from coll_train_runs import TrainTest, rank_processes  # noqa: E402

SEED = int(os.environ.get("COLL_TEST_SEED", time.time_ns() % 2**32))


class Restarts(TrainTest):
    """A constant rate: the same steps in runs of 20 and of 40."""
    RATE = ("--rate", "2e-3", "--last-rate", "2e-3", "--save-every", "10")
    straight = None

    def setUp(self):
        super().setUp()
        self.saved = self.path("saved")
        self.options = (*self.RATE, "--save", self.saved)

    def train_20(self, ranks=2, zero="0"):
        return self.train(ranks, *self.options, "--steps", "20", "--zero", zero)

    def expect_straight(self, ranks, *options):
        """Goes on to step 40, to what a run without a stop comes to."""
        if Restarts.straight is None:
            Restarts.straight = self.result(1, *self.RATE, "--save", self.path("straight"),
                                            "--steps", "40", name="straight")
        weights, losses = Restarts.straight
        log, exported = self.path("log"), self.path("weights")
        out, err = self.train(ranks, *self.options, "--steps", "40", "--log", log, "--export",
                              exported, *options)
        self.assertEqual(err, "")
        self.assertTrue(self.read(exported) == weights)
        got = self.losses(log)
        self.assertEqual(got, {step: losses[step] for step in got})
        return out, got

    def test_another_number_of_ranks_and_another_stage(self):
        for number, (before, after) in enumerate((((1, "0"), (4, "3")), ((4, "3"), (2, "1")),
                                                  ((2, "2"), (1, "0")), ((4, "1"), (4, "2")))):
            self.saved = self.path(f"saved-{number}")
            self.options = (*self.RATE, "--save", self.saved)
            self.train_20(*before)
            out, got = self.expect_straight(after[0], "--zero", after[1])
            self.assertIn(f"{self.saved} goes on from step 20\n", out)
            self.assertEqual(sorted(got), list(range(21, 41)))
            os.remove(self.path("log"))

    def test_pipeline_and_offload_go_on_too(self):
        self.train_20(4, "1")
        self.expect_straight(2, "--pp", "2", "--offload", "cpu")

    def damage(self, step):
        shard = os.path.join(self.saved, f"step-{step:06}", "shard-00001.bin")
        with open(shard, "r+b") as file:
            file.seek(os.path.getsize(shard) - 100)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        return shard

    def test_a_damaged_checkpoint_is_refused_and_the_one_before_is_used(self):
        self.train_20()
        shard = self.damage(20)
        table, _ = self.train(1, "--save", self.saved, "--checkpoints")
        lines = table.splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["step", "20", "10"])
        self.assertIn(shard, lines[1])
        self.assertRegex(lines[2], r"\A +10 +2 .* valid\Z")
        copy = self.path("copy")
        shutil.copytree(self.saved, copy)
        _, err = self.train(2, *self.RATE, "--save", copy, "--steps", "20", "--quiet")
        self.assertIn("step-000020 is refused", err)
        out, got = self.expect_straight(2, "--zero", "1")
        self.assertEqual(min(got), 11)
        self.assertRegex(out, rf"{self.saved}/step-000020 is refused: .*{shard}.*\. "
                              rf"{self.saved}/step-000010 is used\. .* goes on from step 10\n")

    def test_without_a_valid_checkpoint_it_does_not_begin_anew(self):
        self.train_20()
        for step in (10, 20):
            self.damage(step)
        _, err = self.train(2, *self.options, "--steps", "40", expect=2)
        self.assertEqual(err.count("coll-train: "), 1, err)
        self.assertIn("No other checkpoint is there: move", err)

    def test_other_settings_are_refused(self):
        self.train_20()
        for options, reason in ((("--seed", "3"), "--seed 1, and this run has 3"),
                                (("--layers", "1"), 'the model "GPT, 2 blocks of 32 channels'),
                                (("--micro-batches", "4"), "--micro-batches 8, and this run has 4"),
                                (("--weights", "bf16"), "--gradients \"f32\"")):
            _, err = self.train(2, *self.options, *options, "--steps", "40", expect=2)
            self.assertEqual(err.count("coll-train: "), 1, err)
            self.assertRegex(err, f"coll-train: the checkpoint in {self.saved} was made with .*"
                                  f"{reason}")

    def test_nothing_is_left_to_train(self):
        weights, _ = self.result(2, *self.options, "--steps", "20")
        saved = sorted(os.listdir(self.saved))
        out, _ = self.train(4, *self.options, "--steps", "20", "--zero", "3", "--export",
                            self.path("again"))
        self.assertEqual(out, f"{self.saved} goes on from step 20\n"
                              "nothing to train: step 20 of 20 is done\n")
        self.assertEqual(self.read(self.path("again")), weights)
        self.assertEqual(sorted(os.listdir(self.saved)), saved)


class Faults(TrainTest):
    STEPS = ("--steps", "400")
    undisturbed = None

    def setUp(self):
        super().setUp()
        self.log, self.saved, self.weights = map(self.path, ("log", "saved", "weights"))
        self.options = (*self.STEPS, "--zero", "1", "--save", self.saved, "--save-every", "25",
                        "--log", self.log, "--export", self.weights)

    def expect_undisturbed(self):
        if Faults.undisturbed is None:
            Faults.undisturbed = self.result(1, *self.STEPS, name="undisturbed")
        self.assertTrue(self.read(self.weights) == Faults.undisturbed[0])
        self.assertEqual(self.losses(self.log), Faults.undisturbed[1])

    def expect_named(self, err, reason):
        """One rank says why, the others shortly."""
        said = sorted(line for line in err.splitlines() if line.startswith("coll-train: "))
        self.assertEqual(len(said), 3, err)
        self.assertRegex(said[0], f"coll-train: rank 0: .*rank 2 .*{reason}.*The same command goes "
                                  f"on from the newest checkpoint in {self.saved}")
        self.assertEqual(said[1:], [f"coll-train: rank {rank} ends, because rank 2 is lost"
                                    for rank in (1, 3)])
        for rank in (0, 1, 3):
            self.assertRegex(err, rf"coll-run: rank {rank} \(pid \d+\) exited with code 3")

    def test_the_others_name_a_killed_rank_and_the_run_goes_on(self):
        process = self.start(4, *self.options)
        self.wait_for_steps(process, self.log, 60)
        seconds, _, err = self.hit(process, 2)
        print(f"# the survivors ended {1000 * seconds:.1f} ms after the kill", flush=True)
        self.assertLess(seconds, 10)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL)
        self.expect_named(err, "is gone")
        copies = self.path("saved-2"), self.path("log-2")
        shutil.copytree(self.saved, copies[0])
        shutil.copy(self.log, copies[1])
        out, _ = self.train(4, *self.options)
        self.assertRegex(out, r"goes on from step (25|50|75|100|125|150)\n")
        self.expect_undisturbed()
        self.saved, self.log = copies
        self.train(2, *self.STEPS, "--zero", "3", "--save", self.saved, "--log", self.log,
                   "--export", self.weights)
        self.expect_undisturbed()

    def test_a_stopped_rank_is_named_at_the_deadline(self):
        process = self.start(4, *self.options, run=("--grace", "0.5"), COLL_DEADLINE_S="2")
        self.wait_for_steps(process, self.log, 60)
        seconds, _, err = self.hit(process, 2, signal.SIGSTOP)
        print(f"# the survivors ended {seconds:.1f} s after the stop", flush=True)
        self.assertLess(seconds, 20)
        self.assertEqual(process.returncode, 3)
        # Ranks wait on several communicators. On a loaded machine one may see first that another,
        # which named rank 2, has ended.
        self.assertRegex(err, "coll-train: rank [013]: .*rank 2 .*does not answer")
        self.train(4, *self.options)
        self.expect_undisturbed()

    def size(self, path):
        return os.path.getsize(path) if os.path.exists(path) else 0

    def test_kills_at_any_moment(self):
        print(f"# COLL_TEST_SEED={SEED}", flush=True)
        draw = random.Random(SEED)
        # A checkpoint is being written nearly all the time.
        options = (*self.STEPS, "--zero", "1", "--save", self.saved, "--save-every", "5",
                   "--log", self.log, "--export", self.weights)
        kills = 0
        for _ in range(5):
            process = self.start(4, *options, run=("--grace", "30"))
            # Ranks that have not met yet wait for the one that is killed: another test's matter.
            before = self.size(self.log)
            while self.size(self.log) == before and process.poll() is None:
                time.sleep(0.002)
            time.sleep(draw.uniform(0, 0.15))
            pid = rank_processes(process.pid).get(draw.randrange(4))
            if process.poll() is None and pid is not None:
                os.kill(pid, signal.SIGKILL)
                kills += 1
            _, err = process.communicate(timeout=60)
            # The first that coll-run sees end may be another rank.
            self.assertIn(process.returncode, (0, 3, 128 + signal.SIGKILL), err)
            if process.returncode != 0:
                self.assertNotIn("killing", err, "the others end by themselves")
        print(f"# {kills} kills", flush=True)
        self.train(2, *options)
        self.expect_undisturbed()
        self.assertFalse([name for name in os.listdir(self.saved) if "." in name])

    def test_a_signal_to_stop_writes_a_checkpoint(self):
        process = self.start(4, *self.STEPS, "--zero", "2", "--save", self.saved, "--log", self.log)
        self.wait_for_steps(process, self.log, 30)
        os.kill(rank_processes(process.pid)[1], signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (0, ""))
        stop = re.search(r"checkpoint of step (\d+) written\nstopped after step (\d+) of 400; the "
                         r"same command goes on from there\n", out)
        self.assertIsNotNone(stop, out)
        self.assertEqual(len(set(stop.groups())), 1)
        self.assertEqual(len(self.losses(self.log)), int(stop[1]))
        out, _ = self.train(2, *self.options)
        self.assertIn(f"goes on from step {stop[1]}\n", out)
        self.expect_undisturbed()


if __name__ == "__main__":
    tap.main()
