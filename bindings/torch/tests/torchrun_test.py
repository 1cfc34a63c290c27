# SPDX-License-Identifier: Apache-2.0
# A C program without PyTorch, which torchrun starts: its ranks meet as the variables say.
import os
import pathlib
import socket
import subprocess
import sys

import pytest

import collectives_torch._extension as extension

ROOT = pathlib.Path(__file__).parents[3]
TIMEOUT_S = 120


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """An example that calls coll_comm_init_env and all_reduce, with the library of the wheel."""
    built = tmp_path_factory.mktemp("torchrun") / "consumer"
    site = pathlib.Path(extension.__file__).parents[1]
    [library] = site.glob(".collectives_torch.mesonpy.libs/libcollectives.so.0")
    subprocess.run(["cc", "-std=c11", f"-I{ROOT}/include",
                    ROOT / "examples/consumer_pkgconfig/pkgconfig_consumer.c", "-o", built,
                    library, f"-Wl,-rpath,{library.parent}"], check=True, timeout=TIMEOUT_S)
    return str(built)


def start(options, command):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("COLL_", "MASTER_", "TORCHELASTIC_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *options, "--no-python", *command],
        env=dict(environment, OMP_NUM_THREADS="1"), text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def expect_ranks(size, *launchers):
    """Waits for the launchers, and expects the line of each rank once."""
    ended = []
    try:
        for launcher in launchers:
            ended.append((*launcher.communicate(timeout=TIMEOUT_S), launcher.returncode))
    finally:
        for launcher in launchers:
            launcher.kill()
    assert all(status == 0 for _, _, status in ended), ended
    mean = (size - 1) / 2
    lines = sorted(line for output, _, _ in ended for line in output.splitlines())
    assert lines == [f"rank {rank} of {size}: {mean:g} {10 * mean:g}" for rank in range(size)], \
        ended


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def test_one_node(program):
    expect_ranks(2, start(["--standalone", "--nproc-per-node", "2"], [program]))


def test_two_nodes(program):
    where = ["--master-addr", "127.0.0.1", "--master-port", free_port()]
    expect_ranks(4, *[start(["--nproc-per-node", "2", "--nnodes", "2", "--node-rank", node, *where],
                            [program]) for node in "01"])


def test_ranks_that_torchrun_starts_again_meet_again(program):
    fails_first = 'test "$TORCHELASTIC_RESTART_COUNT:$RANK" != 0:1 && exec "$0"'
    expect_ranks(2, start(["--standalone", "--nproc-per-node", "2", "--max-restarts", "1"],
                          ["sh", "-c", fails_first, program]))
