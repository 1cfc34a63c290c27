# SPDX-License-Identifier: Apache-2.0
# Ranks started by Debian's Slurm meet each other: one host, two hosts, each of srun's ways to serve
# PMI, and steps side by side. The first test that needs the cluster starts it.
import os
import shutil
import signal
import sys
import unittest

import slurm_cluster

sys.path.insert(0, sys.argv[1])
import tap  # noqa: E402

RANK = os.path.abspath(sys.argv[2])
started = []  # the cluster; None if it did not start


def end_cluster():
    for cluster in filter(None, started):
        cluster.stop()


class Slurm(unittest.TestCase):
    def setUp(self):
        why_not = slurm_cluster.why_not()
        if why_not:
            self.skipTest(why_not)
        if not started:
            started.append(None)
            started[0] = slurm_cluster.start_cluster()
        self.cluster = started[0]
        self.assertIsNotNone(self.cluster, "the cluster did not start: the first test says why")

    def expect_met(self, done, launcher="Slurm", ranks=4, word=""):
        """Two communicators, one after the other."""
        status, output = done
        everybody = launcher + ": " + " ".join(f"{rank}{word}" for rank in range(ranks))
        if status != 0 or output.split("\n").count(everybody) != 2 * ranks:
            self.fail(f"status {status}\n{output}\n{self.cluster.words()}")

    def srun(self, hosts, *options, program=(RANK,), **environment):
        return self.cluster.run("srun", "-n", "4", "-w", hosts, *options, *program, **environment)

    def need_pmi(self, kind):
        """The options and the environment of srun; PMIx's library leaks."""
        if kind not in self.cluster.run("srun", "--mpi=list")[1].split():
            self.skipTest(f"srun does not offer {kind}")
        _, output = self.cluster.run("srun", f"--mpi={kind}", "-n", "1", "true")
        if "can not load PMIx library" in output:
            self.skipTest("Slurm finds no libpmix.so (Debian: libpmix-dev)")
        return f"--mpi={kind}", {"ASAN_OPTIONS": "detect_leaks=0"}

    def allocate(self, hosts):
        """The beginning of each step's command."""
        _, said = self.cluster.run("salloc", "--no-shell", "-n", "4", "-w", hosts)
        job = said.partition("Granted job allocation ")[2].split()
        self.assertTrue(job, said)
        self.addCleanup(self.cluster.run, "scancel", job[0])
        return ["srun", f"--jobid={job[0]}", "--overlap"]

    def expect_met_side_by_side(self, hosts, commands, **environment):
        """The ranks of all steps begin to meet when all steps are there."""
        meet = self.cluster.folder / "meet"
        meet.unlink(missing_ok=True)
        jobs = {word: self.cluster.begin(*command, "-n", "4", "-w", hosts, RANK, str(meet), "-1",
                                         LAUNCHED_WORD=word, **environment)
                for word, command in commands.items()}
        slurm_cluster.wait_for(lambda: len(self.cluster.steps()) == len(jobs)
                               or any(job.poll() is not None for job, _ in jobs.values()),
                               lambda: "the steps do not start\n" + self.cluster.words())
        meet.touch()
        for word, job in jobs.items():
            self.expect_met(self.cluster.finish(job), word=word)

    def test_one_host(self):
        self.expect_met(self.srun(self.cluster.lone))

    def test_two_hosts_whose_names_lead_nowhere(self):
        self.expect_met(self.srun(self.cluster.near))

    def test_pmi2(self):
        option, environment = self.need_pmi("pmi2")
        self.expect_met(self.srun(self.cluster.lone, option, **environment))
        self.expect_met(self.srun(self.cluster.near, option, **environment))

    def test_pmix(self):
        option, environment = self.need_pmi("pmix")
        self.expect_met(self.srun(self.cluster.lone, option, **environment))
        # A fence that carried nothing failed three times in four.
        for _ in range(3):
            self.expect_met(self.srun(self.cluster.near, option, **environment))

    def test_a_rank_that_tries_again_meets_the_others(self):
        for early in "01":
            tried = self.cluster.folder / f"tried-{early}"
            self.expect_met(self.srun(self.cluster.near, program=(RANK, str(tried), early)))

    def test_a_rank_that_tries_again_meets_the_others_by_pmix(self):
        option, environment = self.need_pmi("pmix")
        for early in "01":
            tried = self.cluster.folder / f"tried-pmix-{early}"
            self.expect_met(self.srun(self.cluster.near, option,
                                      program=(RANK, str(tried), early), **environment))

    def test_jobs_side_by_side_are_strangers(self):
        self.expect_met_side_by_side(self.cluster.near, {word: ["srun"] for word in "ab"})

    def test_steps_of_one_allocation_are_strangers(self):
        step = self.allocate(self.cluster.near)
        self.expect_met_side_by_side(self.cluster.near, {word: step for word in "ab"})
        self.expect_met(self.cluster.run(*step, "-n", "4", RANK))  # one more, after them

    def test_steps_of_one_allocation_are_strangers_by_pmix(self):
        option, environment = self.need_pmi("pmix")
        step = [*self.allocate(self.cluster.near), option]
        self.expect_met_side_by_side(self.cluster.near, {word: step for word in "ab"},
                                     **environment)
        self.expect_met(self.cluster.run(*step, "-n", "4", RANK, **environment))

    def expect_met_in_an_allocation(self, launcher, program, *options):
        if shutil.which(program) is None:
            self.skipTest(f"{program} is not installed")
        done = self.cluster.run("salloc", "-n", "4", "-w", self.cluster.near, program, *options,
                                "-n", "4", RANK, ASAN_OPTIONS="detect_leaks=0")
        self.expect_met(done, launcher)

    def test_open_mpi_in_an_allocation(self):
        self.expect_met_in_an_allocation("Open MPI", "mpirun.openmpi")

    def test_mpich_in_an_allocation(self):
        # Its processes dial it by name, and this machine's need not lead anywhere.
        self.expect_met_in_an_allocation("MPICH", "mpiexec.hydra", "-localhost", "127.0.0.1")

    def test_what_a_batch_script_starts_without_srun_is_no_rank(self):
        folder = self.cluster.folder
        status, said = self.cluster.run("sbatch", "-n", "4", "--wrap",
                                        f"'{RANK}' >part; mv part whole")
        self.assertEqual(status, 0, said)
        slurm_cluster.wait_for((folder / "whole").exists, self.cluster.words)
        self.assertIn("no launcher says which rank this process is", (folder / "whole").read_text())


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        tap.main()
    finally:
        end_cluster()
