# SPDX-License-Identifier: Apache-2.0
# Coll-run starts, labels, forwards, reports and ends its ranks.
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, sys.argv[1])
import tap  # noqa: E402

COLL_RUN = sys.argv[2]


def start(*arguments, shell, more=()):
    return subprocess.Popen([COLL_RUN, *arguments, "--", "sh", "-c", shell, *more], text=True,
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


def cpu_time(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return pid, stat.read().rsplit(")", 1)[1].split()[11:13]
    except FileNotFoundError:
        return pid, None


def below(pid):
    """All processes below this one."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii") as stat:
                if int(stat.read().rsplit(")", 1)[1].split()[1]) == pid:
                    found += [int(name), *below(int(name))]
        except FileNotFoundError:
            pass
    return found


class CollRun(unittest.TestCase):
    def test_ranks_get_the_torchrun_contract(self):
        code, out, err = run("-n", "3", shell="echo $RANK $WORLD_SIZE $LOCAL_RANK "
                             "$LOCAL_WORLD_SIZE $MASTER_ADDR $((MASTER_PORT > 0))")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(out.splitlines()),
                         [f"{rank} 3 {rank} 3 127.0.0.1 1" for rank in range(3)])

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
        self.assertEqual(out, "\n")

    def test_the_file_rendezvous_is_shared_and_gone_afterwards(self):
        _, out, _ = run("-n", "2", "--rendezvous", "file",
                        shell="echo $COLL_RENDEZVOUS")
        places = set(out.splitlines())
        self.assertEqual(len(places), 1)
        place = places.pop().removeprefix("file://")
        self.assertTrue(place.startswith("/"))
        self.assertFalse(os.path.exists(os.path.dirname(place)))

    def test_labelled_streams_are_kept_apart_and_lines_whole(self):
        code, out, err = run("-n", "4", "--label", shell="for i in $(seq 300); do printf 'out %s ' $i; "
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
            self.assertEqual(sorted(out.splitlines()), ["caught", "caught"])
            self.assertRegex(err, r"got \w+, forwarding it to [12] ranks?")

    def test_what_ranks_left_behind_gets_a_signal_once(self):
        helper = ("trap 'told=1; echo told' TERM; echo ready; "
                  "while [ -z $told ]; do sleep 0.05; done; sleep 0.3")
        for session in ("setsid ", ""):
            process = start("-n", "1", "--grace", "50",
                            shell=f'{session}sh -c "$0" & exec sleep 60', more=[helper])
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.terminate()
            out, err = process.communicate(timeout=40)
            self.assertEqual((process.returncode, out), (128 + signal.SIGTERM, "told\n"), session)
            self.assertNotIn("killing", err)

    def test_a_signal_while_it_waits_for_what_ranks_left_behind(self):
        process = start("-n", "1", "--grace", "50",
                        shell='setsid sh -c "$0" & exec sleep 60',
                        more=["trap 'trap - TERM; echo told' TERM; echo ready; "
                              "while :; do sleep 0.05; done"])
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.terminate()
        self.assertEqual(process.stdout.readline(), "told\n")
        process.terminate()
        _, err = process.communicate(timeout=40)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertIn("got Terminated, with what the ranks started still running\n", err)

    def test_ranks_have_no_descriptors_but_their_own(self):
        command = ["ls", "/proc/self/fd"]
        self.assertEqual(subprocess.check_output([COLL_RUN, "-n", "1", "--", *command]),
                         subprocess.check_output(command))

    def test_no_orphans_when_it_is_killed_itself(self):
        process = start("-n", "3", shell="echo $$; exec sleep 60")
        pids = [int(process.stdout.readline()) for _ in range(3)]
        process.kill()
        process.communicate(timeout=60)
        self.assertEqual(wait_until_gone(pids), [])

    def test_nothing_that_ranks_started_is_left_when_it_is_killed_itself(self):
        # Below a shell, in a session of its own, and one whose parent has ended.
        process = start("-n", "2", shell="sleep 60 & echo $!; "
                        "setsid sh -c 'echo $$; exec sleep 60' & "
                        "(sleep 60 & echo $!); wait; true")
        pids = [int(process.stdout.readline()) for _ in range(6)]
        process.kill()
        process.communicate(timeout=60)
        self.assertEqual(wait_until_gone(pids), [])

    def test_a_time_out_reaches_what_ranks_started_elsewhere(self):
        process = start("-n", "2", "--timeout", "0.5", "--grace", "0.3",
                        shell="setsid sh -c 'trap : TERM; echo $$; while :; do sleep 60; done' & "
                        "wait; true")
        pids = [int(process.stdout.readline()) for _ in range(2)]
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 124)
        self.assertEqual([pid for pid in pids if alive(pid)], [])

    def test_a_failure_leaves_nothing_and_a_success_what_it_wants(self):
        for code in (5, 0):
            process = start("-n", "1", "--label", shell=f"sleep 60 & echo $!; exit {code}")
            pid = int(process.stdout.readline().split()[1])
            process.communicate(timeout=60)
            self.assertEqual((process.returncode, alive(pid)), (code, code == 0))
            if code == 0:
                os.kill(pid, signal.SIGKILL)

    def test_children_that_it_has_from_before_are_left_alone(self):
        done = subprocess.run(["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!; "
                               f"exec {COLL_RUN} -n 1 -- false"], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        pid = int(done.stdout)
        self.assertEqual((done.returncode, alive(pid)), (1, True))
        os.kill(pid, signal.SIGKILL)

    def test_a_reader_that_goes_away_ends_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            process = start("-n", "2", "--label", shell="for i in $(seq 20000); do echo $i; done; "
                            f"echo whole > {folder}/$RANK")
            process.stdout.readline()
            process.stdout.close()
            err = process.stderr.read()
            self.assertEqual((process.wait(timeout=60), err), (0, ""))
            self.assertEqual(sorted(os.listdir(folder)), ["0", "1"])

    def test_a_reader_that_stops_delays_no_time_out(self):
        for chatter in ("yes", "yes >&2"):
            process = start("-n", "2", "--label", "--timeout", "0.5", "--grace", "0.3", shell=chatter)
            self.assertEqual(process.wait(timeout=60), 124)
            process.communicate()

    def test_a_reader_that_stops_delays_no_signal(self):
        process = start("-n", "2", "--label", "--grace", "0.3", shell="yes")
        process.stdout.readline()
        process.terminate()
        self.assertEqual(process.wait(timeout=60), 128 + signal.SIGTERM)
        process.communicate()

    def test_what_nobody_reads_does_not_outlive_the_time(self):
        process = start("-n", "1", "--label", "--timeout", "0.5", "--grace", "0.3", shell="seq 40000")
        self.assertEqual(process.wait(timeout=60), 124)
        _, err = process.communicate()
        self.assertEqual(err, "coll-run: the time of 0.5 s is over with output that nobody has "
                         "read\n")

    def test_a_slow_reader_gets_everything(self):
        # More than pipes and coll-run keep: the ranks wait. The first line is read once they cannot
        # but do so.
        process = start("-n", "2", "--label", shell="seq 400000; echo end >&2")
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        until = time.monotonic() + 60
        last = None
        while time.monotonic() < until:  # nothing moves any more
            now = [cpu_time(pid) for pid in below(process.pid)]
            if now == last and len(now) > 2:
                break
            last = now
            time.sleep(0.1)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        lines = out.splitlines()
        for rank in range(2):
            self.assertEqual([line for line in lines if line.startswith(f"[{rank}] ")],
                             [f"[{rank}] {i}" for i in range(1, 400001)])
        self.assertEqual(sorted(err.splitlines()), ["[0] end", "[1] end"])

    def test_an_output_that_does_not_block_loses_nothing(self):
        out, into = os.pipe()
        os.set_blocking(into, False)
        with subprocess.Popen([COLL_RUN, "-n", "1", "--label", "--", "seq", "100000"], stdout=into,
                              stderr=subprocess.PIPE) as process, os.fdopen(out) as reader:
            os.close(into)
            self.assertEqual(reader.read().splitlines(), [f"[0] {i}" for i in range(1, 100001)])
            self.assertEqual(process.wait(timeout=60), 0)

    def test_a_full_disk_is_told(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([COLL_RUN, "-n", "1", "--label", "--", "echo", "x"], stdout=full, text=True,
                                  stderr=subprocess.PIPE, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stderr),
                         (0, "coll-run: cannot write the output: No space left on device\n"))

    def test_ranks_take_signals_as_others_do(self):
        command = ["grep", "-E", "Sig(Blk|Ign|Cgt)", "/proc/self/status"]
        self.assertEqual(subprocess.check_output([COLL_RUN, "-n", "1", "--", *command]),
                         subprocess.check_output(command))

    def test_more_time_than_clocks_count_is_no_end(self):
        for time_s in ("1e9", "1e12", "1e18", "1e300", "inf"):
            code, out, err = run("-n", "2", "--timeout", time_s, "--grace", time_s,
                                 shell="[ $RANK = 0 ] && exit 3; sleep 0.2; echo done")
            self.assertEqual((code, out), (3, "done\n"), time_s)
            self.assertNotIn("killing", err)
            self.assertNotIn("is over", err)

    def test_times_that_are_none_are_refused(self):
        for option in ("--timeout", "--grace"):
            for bad in ("nan", "-nan", "-1", "-inf", "x", ""):
                done = subprocess.run([COLL_RUN, "-n", "1", f"{option}={bad}", "--", "true"],
                                      check=False, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, timeout=60)
                self.assertEqual((done.returncode, done.stdout), (2, ""), bad)
                self.assertRegex(done.stderr, rf"\Acoll-run: {option}: .+\n\Z")

    def test_pinning_shares_the_cores_out(self):
        cores = sorted(os.sched_getaffinity(0))
        code, out, _ = run("-n", str(len(cores)), "--pin", shell="grep Cpus_allowed_list "
                           "/proc/self/status | cut -f 2")
        self.assertEqual(code, 0)
        self.assertEqual(sorted(out.splitlines()),
                         sorted(map(str, cores)))

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
        done = subprocess.run([COLL_RUN, "-n", "2", "--wat", "--wut"], check=False, text=True, stderr=subprocess.PIPE)
        self.assertIn("not understood: --wat --wut;", done.stderr)


if __name__ == "__main__":
    tap.main()
