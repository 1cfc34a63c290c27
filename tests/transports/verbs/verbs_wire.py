# SPDX-License-Identifier: Apache-2.0
# The RDMA ports of this machine, and the wire between emulated ones, which loses and delays packets
# and can be cut.
import contextlib
import glob
import os
import shlex
import subprocess

from verbs_programs import PATIENCE, Unable, wait_until

DEVICES = "/sys/class/infiniband"


def read(*path):
    try:
        with open(os.path.join(*path), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def ports():
    """DEVICE:PORT of each active one."""
    found = []
    for path in sorted(glob.glob(f"{DEVICES}/*/ports/*")):
        device, number = path.split("/")[-3::2]
        if "ACTIVE" in read(path, "state"):
            found.append(f"{device}:{number}")
    return found


def need_ports(count):
    if len(ports()) < count:
        raise Unable(f"needs {count} active RDMA ports, here are {len(ports())}")
    return ports()[:count]


def need_wire(count):
    """These ports, where the wire between them can be cut and damaged."""
    if not os.environ.get("VERBS_LAB_WIRE"):
        raise Unable("needs a wire that can be cut, as the emulated machine has one")
    return need_ports(count)


def wire(*arguments):
    """Does something to the emulated wire."""
    command = os.environ["VERBS_LAB_WIRE"]
    subprocess.run([*shlex.split(command), *arguments], check=True, timeout=30 * PATIENCE[0])


@contextlib.contextmanager
def damaged(*what):
    """Packets suffer it until the end."""
    need_wire(2)
    wire("netem", *what)
    try:
        yield
    finally:
        wire("clear")


def mend():
    """As it was in the beginning."""
    if os.environ.get("VERBS_LAB_WIRE"):
        wire("clear")
        wire("up")


def all_up(count):
    """Each port, again."""
    wire("up")
    wait_until(lambda: len(ports()) >= count, 30, f"{count} ports that are active again")


def interface_of(port):
    """The network interface that a RoCE port is of, if any."""
    device, number = port.split(":")
    return read(DEVICES, device, "ports", number, "gid_attrs/ndevs/0")


def sent(port):
    """(bytes, packets) that a port has sent, or nothing where nobody counts them."""
    device, number = port.split(":")
    counters = os.path.join(DEVICES, device, "ports", number, "counters")
    words, packets = read(counters, "port_xmit_data"), read(counters, "port_xmit_packets")
    if words and packets and int(words):
        return 4 * int(words), int(packets)
    statistics = f"/sys/class/net/{interface_of(port)}/statistics"
    data, packets = read(statistics, "tx_bytes"), read(statistics, "tx_packets")
    return (int(data), int(packets)) if data and packets else None
