# SPDX-License-Identifier: Apache-2.0
# Many groups, groups of few ranks, and what they cost a process.
import os
from datetime import timedelta

import torch
import torch.distributed as dist

from pool import lacks, on_ranks

PER_PROCESS = 4  # threads that the library has for a whole process


def threads():
    return len(os.listdir("/proc/self/task"))


def total_of(group, ranks):
    tensor = torch.ones(10)
    dist.all_reduce(tensor, group=group)
    assert torch.equal(tensor, torch.full((10,), float(ranks)))


@on_ranks(2, more=(4,))
def test_32_groups_have_few_threads():
    lacks("gloo", reason="two threads a group and more")
    ranks = dist.get_world_size()
    total_of(None, ranks)
    before = threads()
    groups = [dist.new_group(timeout=timedelta(seconds=30)) for _ in range(32)]
    for group in groups:
        total_of(group, ranks)
        work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
        work.wait()
    assert threads() - before <= 2 + PER_PROCESS
    for group in groups:
        dist.destroy_process_group(group)
    assert threads() <= before + PER_PROCESS


@on_ranks(2, 4)
def test_groups_come_and_go():
    ranks = dist.get_world_size()
    descriptors = lambda: len(os.listdir("/proc/self/fd"))
    for n in range(12):
        group = dist.new_group()
        total_of(group, ranks)
        dist.destroy_process_group(group)
        if n == 3:
            settled = descriptors()
    assert descriptors() <= settled + 2


def connections_to_the_store():
    """The inodes of this process's sockets that lead to the store's port."""
    store = dist.distributed_c10d._get_default_store()  # pylint: disable=protected-access
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    own = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            own.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:  # the descriptor that listed them
            continue
    inodes = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/self/net/{table}", encoding="ascii") as file:
            for line in file.readlines()[1:]:
                words = line.split()
                leads_there = int(words[2].rsplit(":", 1)[1], 16) == store.port
                if leads_there and f"socket:[{words[9]}]" in own:
                    inodes.add(words[9])
    return inodes


@on_ranks(2)
def test_groups_join_over_one_connection_to_the_store():
    """When one is made, the store's server looks up names while all others wait."""
    lacks("gloo", reason="joins over PyTorch's own connection")
    total_of(dist.new_group(), 2)
    first = connections_to_the_store()
    assert len(first) == 2  # PyTorch's own, and that which joins groups
    for _ in range(4):
        total_of(dist.new_group(), 2)
        assert connections_to_the_store() == first


@on_ranks(4)
def test_only_members_make_a_group():
    """Each rank makes its own group; torch counts calls, so each rank makes as many."""
    rank = dist.get_rank()
    group = dist.new_group([rank % 2, rank % 2 + 2], use_local_synchronization=True)
    total_of(group, 2)
    dist.destroy_process_group(group)
    total_of(None, 4)


@on_ranks(4)
def test_groups_overlap():
    rank = dist.get_rank()
    rows = [dist.new_group(row) for row in ([0, 1], [2, 3])]
    columns = [dist.new_group(column) for column in ([0, 2], [1, 3])]
    for _ in range(20):
        total_of(rows[rank // 2], 2)
        total_of(columns[rank % 2], 2)
    for group in (rows[rank // 2], columns[rank % 2]):
        dist.destroy_process_group(group)


@on_ranks(1, 3)
def test_a_group_of_one():
    ranks = dist.get_world_size()
    groups = [dist.new_group([r]) for r in range(ranks)]
    mine = groups[dist.get_rank()]
    total_of(mine, 1)
    tensor = torch.zeros(3)
    dist.all_gather_into_tensor(tensor, torch.arange(3.0), group=mine)
    assert torch.equal(tensor, torch.arange(3.0))
    dist.destroy_process_group(mine)


@on_ranks(4)
def test_split_group():
    lacks("gloo", reason="no split")
    rank = dist.get_rank()
    part = dist.split_group(split_ranks=[[0, 1], [2, 3]])
    assert dist.get_process_group_ranks(part) == ([0, 1] if rank < 2 else [2, 3])
    total_of(part, 2)
    dist.destroy_process_group(part)


@on_ranks(2)
def test_monitored_barrier_passes():
    dist.monitored_barrier(timeout=timedelta(seconds=20))
    dist.monitored_barrier(timeout=timedelta(seconds=20), wait_all_ranks=True)
