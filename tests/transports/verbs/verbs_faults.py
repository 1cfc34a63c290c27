# SPDX-License-Identifier: Apache-2.0
# Links, ranks and limits that fail in the middle of collectives, on real devices: what can go on
# goes on with right results, what cannot ends soon and says why.
import os
import re
import signal
import time

from verbs_programs import Unable, expect, wait_until
from verbs_ranks import ONCE, ROW, pid_of, ranks, right
from verbs_wire import all_up, need_ports, need_wire, wire

BROKEN = r"verbs: .* has failed:"
OUTAGE_S = 3
# Many short points: their rows show how far the ranks are.
LONG = ["-t", "all_reduce,all_to_all", "--sizes", ",".join(["8", "64K"] * 20), "-n", "2", "-w", "0", "--batches", "1"]
ENDLESS = ["-t", "all_reduce", "--sizes", ",".join(["8", "64K"] * 2000), "-n", "2", "-w", "0", "--batches", "1"]


def in_the_middle(program, rows=4):
    program.wait_for(ROW, 60, rows)
    expect(not program.ended(), "it has ended before anything was broken", program)


def a_port_down_for_a_while():
    program = ranks(need_wire(2), *LONG)
    in_the_middle(program)
    wire("down", "vl1")
    down = time.monotonic()

    def rows_after(seconds):
        wait_until(lambda: time.monotonic() - down > seconds, seconds + 5, "the outage's end")
        return len(re.findall(ROW, program.text(), re.M))
    early, late = rows_after(OUTAGE_S / 2), rows_after(OUTAGE_S)
    all_up(2)
    ended = len(re.findall(ROW, right(program, 90), re.M))
    expect(early == late, f"{late - early} points were done while the port was down", program)
    expect(late < ended, "all points were done before the port was down", program)
    return f"{early} points before, {ended - late} after {OUTAGE_S} s"


def a_pair_that_gives_up_and_is_begun_anew():
    program = ranks(need_wire(2), *LONG, COLL_VERBS="timeout=10,retries=1")
    in_the_middle(program)
    wire("down", "vl1")
    program.wait_for(BROKEN, 60)
    all_up(2)
    right(program, 90)


def a_rank_is_killed():
    program = ranks(need_ports(2), *ENDLESS)
    pid = pid_of(program, 1)
    in_the_middle(program, 2)
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    told = program.wait_for(r"^\[0\] coll-perf: rank 0: .*rank 1\b.*$", 20, promised=True)
    took = time.monotonic() - killed
    expect("peer lost" in told[0][0], "rank 0's error is not that its peer is lost", program)
    expect(program.finish(20) != 0, "coll-run ended well", program)
    return f"rank 0 said so {took:.1f} s later"


def all_ports_down_for_good():
    program = ranks(need_wire(2), *ENDLESS, COLL_VERBS="patience=2,timeout=12")
    in_the_middle(program, 2)
    wire("down", "vl1")
    cut = time.monotonic()
    for rank in (0, 1):
        program.wait_for(rf"^\[{rank}\] coll-perf: rank {rank}: .*no port has reached the peer for 2 s .*is down", 60)
    took = time.monotonic() - cut
    expect(program.finish(30) != 0, "coll-run ended well", program)
    return f"both said so within {took:.1f} s"


def another_port_takes_over():
    four = need_wire(4)
    program = ranks([",".join(four[:2]), ",".join(four[2:])], *LONG, COLL_VERBS="timeout=12,retries=3")
    in_the_middle(program)
    wire("down", "vl1")  # and stays so
    program.wait_for(BROKEN, 60)
    broken = len(re.findall(ROW, program.text(), re.M))
    text = right(program, 90)
    after = len(re.findall(ROW, text, re.M)) - broken
    expect(after > 0, "all had been done before the pair was given up", program)
    return f"{after} points over the other port"


def a_rank_without_a_port():
    port = need_ports(1)[0]
    program = ranks([port, "lo"], "-t", "all_reduce", "--sizes", "8,64K", *ONCE, COLL_TRANSPORTS="verbs,tcp")
    text = right(program, 60)
    expect(re.search(r"^\[1\] .*transport verbs is not viable: .*COLL_INTERFACE=\"lo\"", text, re.M),
           "rank 1 does not say why verbs is not used", program)
    expect(re.search(r"rank [01] lane 0: tcp ", text), "TCP is not used", program)


def little_memory_to_lock():
    pair = need_ports(2)
    if os.getuid() != 0:
        raise Unable("lowers the limit of another user: needs to be root")
    lowered = "ulimit -l 64; set -- setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\";"
    point = ["-t", "all_reduce", "--sizes", "8", *ONCE]
    text = right(ranks(pair, *point, before=lowered, COLL_TRANSPORTS="verbs,tcp"), 60)
    expect(re.search(r"transport verbs is not viable: .*ulimit -l", text), "the log does not name ulimit -l:\n" + text)
    expect(re.search(r"rank [01] lane 0: tcp ", text), "TCP is not used:\n" + text)
    program = ranks(pair, *point, before=lowered, COLL_TRANSPORTS="verbs")
    expect(program.finish(60) != 0, "verbs alone works with 64 KiB of locked memory", program)
    for rank in (0, 1):
        program.wait_for(rf"^\[{rank}\] coll-perf: .*ibv_reg_mr.*ulimit -l", 1)

