# SPDX-License-Identifier: Apache-2.0
# Ranks started by the launchers that are installed here meet each other.
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv[1])
import tap  # noqa: E402

RANK = sys.argv[2]
COLL_RUN = sys.argv[3]


def run(command, **environment):
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("COLL_", "SLURM_", "PMI", "OMPI_", "MASTER_"))}
    clean |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} | environment
    return subprocess.run(command, env=clean, text=True, timeout=100, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class Launchers(unittest.TestCase):
    def expect_met(self, command, launcher, ranks, **environment):
        done = run(command, **environment)
        everybody = launcher + ": " + " ".join(str(rank) for rank in range(ranks))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stdout.count(everybody), 2 * ranks, done.stdout)

    def expect_met_again(self, command, launcher, ranks, **environment):
        """A rank tries before the others come, gives up, and tries again."""
        for early in ("0", "1"):
            with tempfile.TemporaryDirectory() as place:
                self.expect_met([*command, os.path.join(place, "tried"), early], launcher, ranks,
                                **environment)

    def need(self, *names):
        for name in names:
            if shutil.which(name):
                return name
        return self.skipTest(f"{names[0]} is not installed")

    def open_mpi(self, ranks):
        return [self.need("mpirun.openmpi"), "--oversubscribe", "-n", str(ranks)]

    def test_coll_run_by_tcp(self):
        self.expect_met([COLL_RUN, "-n", "4", "--", RANK], "torchrun", 4)

    def test_coll_run_by_file(self):
        self.expect_met([COLL_RUN, "-n", "4", "--rendezvous", "file", "--", RANK],
                        "torchrun", 4)

    def test_a_rank_that_tries_again_meets_the_others(self):
        self.expect_met_again([COLL_RUN, "-n", "4", "--", RANK], "torchrun", 4)
        self.expect_met_again([COLL_RUN, "-n", "4", "--rendezvous", "file", "--",
                               RANK], "torchrun", 4)

    def test_a_rank_that_tries_again_meets_the_others_by_open_mpi(self):
        self.expect_met_again([*self.open_mpi(4), RANK], "Open MPI", 4)
        self.expect_met_again([*self.open_mpi(3), "env", "OMPI_COMM_WORLD_LOCAL_SIZE=1", RANK],
                              "Open MPI", 3, ASAN_OPTIONS="detect_leaks=0")

    def test_a_rank_that_tries_again_meets_the_others_by_mpich(self):
        self.expect_met_again([self.need("mpiexec.hydra"), "-n", "4", RANK], "MPICH", 4)

    def test_open_mpi_on_one_host(self):
        self.expect_met([*self.open_mpi(4), RANK], "Open MPI", 4)

    def test_open_mpi_as_on_several_hosts(self):
        # Each rank believes to be alone on its host, so they meet by PMIx (whose library leaks).
        self.expect_met([*self.open_mpi(3), "env", "OMPI_COMM_WORLD_LOCAL_SIZE=1", RANK],
                        "Open MPI", 3, ASAN_OPTIONS="detect_leaks=0")

    def test_slurm_with_pmix(self):
        # Open MPI's PMIx server in the place of Slurm's; the host that Slurm names leads nowhere.
        as_slurm = ("export SLURM_PROCID=$OMPI_COMM_WORLD_RANK SLURM_NTASKS=$OMPI_COMM_WORLD_SIZE "
                    "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=nowhere.invalid; "
                    "unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE; exec \"$0\"")
        self.expect_met([*self.open_mpi(3), "sh", "-c", as_slurm, RANK], "Slurm", 3,
                        ASAN_OPTIONS="detect_leaks=0")

    def test_mpich(self):
        self.expect_met([self.need("mpiexec.hydra"), "-n", "4", RANK], "MPICH", 4)

    def test_torchrun(self):
        torch = subprocess.run([sys.executable, "-c", "import torch.distributed.run"],
                               stderr=subprocess.DEVNULL, check=False)
        if torch.returncode != 0:
            self.skipTest("PyTorch is not installed")
        self.expect_met([sys.executable, "-m", "torch.distributed.run", "--standalone",
                         "--nproc_per_node", "2", "--no_python", RANK], "torchrun", 2)

    def test_variables_by_hand(self):
        with tempfile.TemporaryDirectory() as place:
            meet = "file://" + os.path.join(place, "meet")
            ranks = [subprocess.Popen([RANK], env=os.environ | {"COLL_RANK": str(rank),
                                                                "COLL_SIZE": "2",
                                                                "COLL_RENDEZVOUS": meet},
                                      text=True, stdout=subprocess.PIPE) for rank in range(2)]
            for rank in ranks:
                output, _ = rank.communicate(timeout=60)
                self.assertEqual(output, "COLL_*: 0 1\n" * 2)

    def test_another_job_in_the_same_place_is_a_stranger(self):
        with tempfile.TemporaryDirectory() as place:
            meet = "file://" + os.path.join(place, "meet")
            jobs = [subprocess.Popen([RANK], env=os.environ | {
                "COLL_RANK": str(rank), "COLL_SIZE": "2", "COLL_RENDEZVOUS": meet,
                "COLL_SECRET": secret}, text=True, stdout=subprocess.PIPE)
                    for secret in "ab" for rank in range(2)]
            for rank in jobs:
                output, _ = rank.communicate(timeout=60)
                self.assertEqual(output, "COLL_*: 0 1\n" * 2)


if __name__ == "__main__":
    tap.main()
