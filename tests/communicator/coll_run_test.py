# SPDX-License-Identifier: Apache-2.0
# tests/: behaviour that can fail. This file: coll-run starts, prefixes, forwards, reports and ends
# its ranks.
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, sys.argv[1])
import tap  # noqa: E402

COLL_RUN = sys.argv[2]


def start(*arguments, shell):
    return subprocess.Popen([COLL_RUN, *arguments, "--", "sh", "-c", shell], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(*arguments, shell):
    process = start(*arguments, shell=shell)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pids):
    until = time.monotonic() + 20
    while any(alive(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.01)
    return [pid for pid in pids if alive(pid)]


class CollRun(unittest.TestCase):
    def test_ranks_get_the_torchrun_contract(self):
        code, out, err = run("-n", "3", shell="echo $RANK $WORLD_SIZE $LOCAL_RANK "
                             "$LOCAL_WORLD_SIZE $MASTER_ADDR $((MASTER_PORT > 0))")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(out.splitlines()),
                         [f"[{rank}] {rank} 3 {rank} 3 127.0.0.1 1" for rank in range(3)])

    def test_what_an_outer_launcher_set_is_gone(self):
        os.environ |= {"COLL_RANK": "7", "COLL_RENDEZVOUS": "x", "OMPI_COMM_WORLD_RANK": "9",
                       "PMI_RANK": "9", "SLURM_PROCID": "9"}
        try:
            _, out, _ = run("-n", "1", shell="echo $COLL_RANK$COLL_RENDEZVOUS"
                            "$OMPI_COMM_WORLD_RANK$PMI_RANK$SLURM_PROCID")
        finally:
            for name in ("COLL_RANK", "COLL_RENDEZVOUS", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                         "SLURM_PROCID"):
                del os.environ[name]
        self.assertEqual(out, "[0] \n")

    def test_the_file_rendezvous_is_shared_and_gone_afterwards(self):
        _, out, _ = run("-n", "2", "--rendezvous", "file", "--no-prefix",
                        shell="echo $COLL_RENDEZVOUS")
        places = set(out.splitlines())
        self.assertEqual(len(places), 1)
        place = places.pop().removeprefix("file://")
        self.assertTrue(place.startswith("/"))
        self.assertFalse(os.path.exists(os.path.dirname(place)))

    def test_streams_are_kept_apart_and_lines_whole(self):
        code, out, err = run("-n", "4", shell="for i in $(seq 300); do printf 'out %s ' $i; "
                             "echo $RANK; done; echo err >&2; printf 'no newline'")
        self.assertEqual(code, 0)
        self.assertEqual(sorted(err.splitlines()), [f"[{rank}] err" for rank in range(4)])
        lines = out.splitlines()
        for rank in range(4):
            mine = [line for line in lines if line.startswith(f"[{rank}] ")]
            self.assertEqual(mine, [f"[{rank}] out {i} {rank}" for i in range(1, 301)]
                             + [f"[{rank}] no newline"])

    def test_the_first_failure_is_reported_and_returned(self):
        code, _, err = run("-n", "3", shell="[ $RANK = 1 ] && exit 7; exec sleep 0")
        self.assertEqual(code, 7)
        self.assertRegex(err, r"coll-run: rank 1 \(pid \d+\) exited with code 7")

    def test_a_killed_rank_is_reported_and_the_others_ended(self):
        begin = time.monotonic()
        code, _, err = run("-n", "3", "--grace", "0.3",
                           shell="[ $RANK = 2 ] && kill -9 $$; exec sleep 60")
        self.assertEqual(code, 128 + signal.SIGKILL)
        self.assertRegex(err, r"rank 2 \(pid \d+\) was killed by signal 9 \(Killed\); waiting 0.3 s "
                              r"for the other 2")
        self.assertIn("killing what still runs: rank 0, 1", err)
        self.assertLess(time.monotonic() - begin, 30)

    def test_the_others_may_fail_by_themselves(self):
        code, _, err = run("-n", "2", "--grace", "50",
                           shell="[ $RANK = 1 ] && exit 3; sleep 0.2; exit 4")
        self.assertEqual(code, 3)
        self.assertRegex(err, r"rank 0 \(pid \d+\) exited with code 4")
        self.assertNotIn("killing", err)

    def test_a_time_out_ends_all(self):
        code, _, err = run("-n", "2", "--timeout", "0.3", "--grace", "0.3",
                           shell="trap '' TERM; while :; do sleep 0.1; done")
        self.assertEqual(code, 124)
        self.assertIn("the time of 0.3 s is over with 2 ranks running", err)

    def test_a_program_that_is_not_there(self):
        done = subprocess.run([COLL_RUN, "-n", "2", "--", "/nonexistent"], text=True, check=False,
                              stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 127)
        self.assertIn("cannot start rank 0, /nonexistent: No such file or directory", done.stderr)

    def test_signals_are_forwarded(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = start("-n", "2", shell="trap 'echo caught; exit 0' INT TERM; echo ready; "
                            "while :; do sleep 0.05; done")
            for _ in range(2):
                self.assertIn("ready", process.stdout.readline())
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 128 + number)
            self.assertEqual(sorted(out.splitlines()), ["[0] caught", "[1] caught"])
            self.assertRegex(err, r"got \w+, forwarding it to [12] ranks?")

    def test_no_orphans_when_it_is_killed_itself(self):
        process = start("-n", "3", "--no-prefix", shell="echo $$; exec sleep 60")
        pids = [int(process.stdout.readline()) for _ in range(3)]
        process.kill()
        process.communicate(timeout=60)
        self.assertEqual(wait_until_gone(pids), [])

    def test_pinning_shares_the_cores_out(self):
        cores = sorted(os.sched_getaffinity(0))
        code, out, _ = run("-n", str(len(cores)), "--pin", shell="grep Cpus_allowed_list "
                           "/proc/self/status | cut -f 2")
        self.assertEqual(code, 0)
        self.assertEqual(sorted(out.splitlines()),
                         sorted(f"[{rank}] {core}" for rank, core in enumerate(cores)))

    def test_help_and_bad_options(self):
        done = subprocess.run([COLL_RUN, "--help"], text=True, stdout=subprocess.PIPE, check=True)
        for word in ("--ranks", "--rendezvous", "--pin", "--timeout", "--grace", "Example"):
            self.assertIn(word, done.stdout)
        for bad in (["-n", "0", "--", "true"], ["-n", "2"], ["--", "true"],
                    ["-n", "2", "--rendezvous", "x", "--", "true"]):
            done = subprocess.run([COLL_RUN, *bad], check=False, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual((done.returncode, done.stdout), (2, ""), bad)
            self.assertRegex(done.stderr, r"\Acoll-run: .+\n\Z", bad)


if __name__ == "__main__":
    tap.main()
