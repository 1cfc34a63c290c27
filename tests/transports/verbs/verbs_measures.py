# SPDX-License-Identifier: Apache-2.0
# Numbers of these devices that are shown and not judged: bytes on the wire against what an algorithm
# has to send, and times beside perftest's and TCP's.
import contextlib
import re
import shutil
import subprocess

from verbs_programs import PATIENCE, Program, Unable, done, expect, wait_until
from verbs_ranks import on_ports, perf, ranks, right
from verbs_wire import damaged, need_ports, need_wire, read, sent

PORT = 18612  # of perftest's side channel
NETEM = ["delay", "200us", "rate", "1gbit"]


def bytes_on_the_wire():
    """Of two runs, one with more calls: so that joining does not count."""
    pair = need_ports(2)
    if any(sent(port) is None for port in pair):
        raise Unable("nobody counts what these ports send")
    counts = []
    size, calls = 1 << 20, 20
    for more in (0, calls):
        before = [sent(port) for port in pair]
        right(ranks(pair, "-t", "all_reduce", "--sizes", "1M", "-n", str(1 + more), "-w", "0", "--batches", "1",
                    "--in-place", "never"), 60)
        counts.append([[b - a for a, b in zip(old, sent(port))] for old, port in zip(before, pair)])
    bound = 2 * (2 - 1) / 2 * size
    said = []
    for port, once, often in zip(pair, *counts):
        data, packets = ((b - a) / calls for a, b in zip(once, often))
        said.append(f"{port} sends {data:.0f} bytes in {packets:.0f} packets per all_reduce of 1 MiB, "
                    f"{data / bound:.3f} of 2(n-1)/n of it")
    return "; ".join(said)


def microseconds(command, seconds, **environment):
    """Of each size, as coll-perf measured it out of place."""
    text = done(command, seconds, **environment)
    rows = re.findall(r"^(?:\[0\] )? +(\d+) +\d+ +float +\S+ +\S+ +([\d.]+)", text, re.M)
    expect(rows, "coll-perf has no rows:\n" + text)
    return {int(size): float(time) for size, time in rows}


def listening(port):
    wanted = f":{port:04X}"
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read(name).splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(wanted) and fields[3] == "0A":
                return True
    return False


def perftest(tool, pair, *arguments):
    """The last column of its result's row that the tool calls average."""
    def command(port):
        device, number = port.split(":")
        index = [] if "InfiniBand" in read("/sys/class/infiniband", device, "ports", number, "link_layer") else ["-x", "1"]
        return [tool, "-d", device, "-i", number, "-p", str(PORT), "-F", *index, *arguments]
    server = Program(command(pair[0]))
    wait_until(lambda: listening(PORT) or server.ended(), 20, f"{tool} listens")
    text = done([*command(pair[1]), "127.0.0.1"], 40)
    server.finish(20)
    server.kill()
    titles = re.search(r"^ #bytes +#iterations +(.*)$", text, re.M)
    values = re.search(r"^ \d+ +\d+ +(.*)$", text, re.M)
    expect(titles and values, f"{tool} has no result:\n{text}")
    column = [i for i, title in enumerate(re.split(r" {2,}", titles[1].strip())) if "average" in title or "t_avg" in title]
    expect(column, f"{tool} has no average:\n{text}")
    return float(values[1].split()[column[0]])


def beside_perftest():
    if not shutil.which("ib_write_lat"):
        raise Unable("needs perftest")
    pair = need_ports(2)
    latency = perftest("ib_write_lat", pair, "-s", "8", "-n", "500")
    rate = perftest("ib_write_bw", pair, "-s", "1048576", "-n", "20")
    ours = microseconds(on_ports(pair, perf("-t", "sendrecv", "--sizes", "8,1M", "--target", "2")), 60,
                        COLL_TRANSPORTS="verbs")
    return (f"8 bytes one way: ib_write_lat {latency:.0f} us, sendrecv {ours[8]:.0f} us; 1 MiB: ib_write_bw "
            f"{rate:.0f} MB/s, sendrecv {ours[1 << 20] and (1 << 20) / ours[1 << 20]:.0f} MB/s")


@contextlib.contextmanager
def two_namespaces():
    """As if two hosts, joined by a wire that is as bad as that of the RDMA ports."""
    def ip(*words):
        subprocess.run(["ip", *words], check=True, timeout=30 * PATIENCE[0], capture_output=True)
    names = ("verbs-one", "verbs-two")
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", "vt0", "netns", names[0], "mtu", "4500", "type", "veth", "peer", "name", "vt1", "netns",
           names[1], "mtu", "4500")
        for number, name in enumerate(names):
            ip("-n", name, "addr", "add", f"10.78.0.{number + 1}/24", "dev", f"vt{number}")
            for link in ("lo", f"vt{number}"):
                ip("-n", name, "link", "set", link, "up")
            subprocess.run(["tc", "-n", name, "qdisc", "replace", "dev", f"vt{number}", "root", "netem", *NETEM],
                           check=True, timeout=30 * PATIENCE[0])
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, timeout=30 * PATIENCE[0], capture_output=True)


def beside_tcp():
    """The same calls over both, on wires of the same delay and rate."""
    pair = need_wire(2)
    calls = ["-t", "all_reduce", "--sizes", "8,64K,1M", "--target", "1", "--in-place", "never"]
    with damaged(*NETEM):
        verbs = microseconds(on_ports(pair, perf(*calls)), 60, COLL_TRANSPORTS="verbs")
    with two_namespaces() as names:
        both = [Program(["ip", "netns", "exec", name, *perf(*calls)], COLL_TRANSPORTS="tcp", COLL_RANK=str(rank),
                        COLL_SIZE="2", COLL_RENDEZVOUS="tcp://10.78.0.1:29511") for rank, name in enumerate(names)]
        for one in both:
            expect(one.finish(60) == 0, "it failed", one)
        rows = re.findall(r"^ +(\d+) +\d+ +float +\S+ +\S+ +([\d.]+)", both[0].text(), re.M)
    expect(len(rows) == len(verbs), "TCP's ranks have no rows", both[0])
    return f"all_reduce over a wire with {' '.join(NETEM)}: " + "; ".join(
        f"{int(size)} bytes: verbs {verbs[int(size)]:.0f} us, TCP {float(time):.0f} us" for size, time in rows)
