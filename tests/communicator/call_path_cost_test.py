# SPDX-License-Identifier: Apache-2.0
# How many instructions a small call takes. Times differ from machine to machine and from minute to
# minute; a count does not, so a call path that has become longer is noticed anywhere.
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv[1])
import tap  # noqa: E402

PROGRAM = sys.argv[2]
CALLS = 32
# Instructions of one coll_broadcast of 8 bytes over shared memory, from the C ABI and back, with
# g++ 12 -O2 on x86-64: 660 and 638 were measured, and a tenth is for other C libraries.
MOST = {0: 730, 1: 700}


def count(measured):
    """Instructions per call of rank `measured`, the other one runs on the bare machine."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, WORLD_SIZE="2", COLL_RENDEZVOUS=f"file://{folder}/meet",
                   COLL_TRANSPORTS="shm", COLL_DEADLINE_S="60")
        ranks = []
        for rank in (0, 1):
            command = [PROGRAM]
            if rank == measured:
                command = ["valgrind", "--tool=callgrind", "--collect-atstart=no",
                           f"--callgrind-out-file={folder}/out", PROGRAM]
            ranks.append(subprocess.Popen(command, env=dict(env, RANK=str(rank)), text=True,
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE))
        try:
            line = ranks[0].stdout.readline()
            if line != "sent\n":
                raise AssertionError(f"rank 0 said {line!r}: {ranks[0].communicate(timeout=60)}")
            _, err = ranks[1].communicate("go\n", timeout=60)
            ranks[0].communicate(timeout=60)
        finally:
            for rank in ranks:
                rank.kill()
        if [rank.returncode for rank in ranks] != [0, 0]:
            raise AssertionError(err)
        for path in glob.glob(f"{folder}/out*"):
            with open(path, encoding="utf-8") as dump:
                text = dump.read()
            if "calls" in re.search(r"^desc: Trigger: (.*)$", text, re.M).group(1):
                return int(re.search(r"^(?:summary|totals): (\d+)", text, re.M).group(1)) / CALLS
        raise AssertionError("callgrind wrote no dump")


@unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
class CallPathCost(unittest.TestCase):
    def check(self, rank):
        instructions = count(rank)
        print(f"# rank {rank}: {instructions:.0f} instructions a call, at most {MOST[rank]}")
        self.assertGreater(instructions, 100, "nothing was counted")
        self.assertLessEqual(instructions, MOST[rank])

    def test_sending(self):
        self.check(0)

    def test_receiving(self):
        self.check(1)


if __name__ == "__main__":
    tap.main()
