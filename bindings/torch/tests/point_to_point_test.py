# SPDX-License-Identifier: Apache-2.0
# Sends and receives: tags in any order, any source, both sides first, collectives in between.
import random

import pytest
import torch
import torch.distributed as dist

from oracle import ALL, GLOO_LACKS, make, same_bits, values
from pool import Setting, lacks, on_ranks


def ring():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return rank, ranks, (rank + 1) % ranks, (rank - 1) % ranks


@pytest.mark.parametrize("dtype", ALL, ids=lambda t: str(t).removeprefix("torch."))
@on_ranks(2, 3, more=(4,))
def test_every_type_and_layout(dtype):
    if dtype in GLOO_LACKS:
        lacks("gloo", reason=f"no {dtype}")
    rank, _, after, before = ring()
    for count in (0, 1, 4, 1023, 90090):
        for layout in ("contiguous", "transposed", "gaps"):
            if layout != "contiguous" and (Setting.backend == "gloo" or count == 0):
                continue
            got = make(torch.zeros(count, dtype=dtype), layout)
            work = dist.isend(make(values(rank, count, dtype), layout), after)
            dist.recv(got, before)
            work.wait()
            assert same_bits(got, values(before, count, dtype)), (count, layout)


@on_ranks(2, 4)
def test_64_tags_out_of_order():
    rank, _, after, before = ring()
    orders = [random.Random(Setting.seed + n).sample(range(64), 64) for n in (1, 2)]
    length = lambda tag: tag * 97 % 1000 + (50_000 if tag % 16 == 0 else 0)
    sent = [dist.isend(values(rank, length(tag), torch.float32, salt=tag), after, tag=tag)
            for tag in orders[0]]
    got = {tag: torch.zeros(length(tag)) for tag in orders[1]}
    received = [dist.irecv(got[tag], before, tag=tag) for tag in orders[1]]
    for work in received + sent:
        work.wait()
    for tag, tensor in got.items():
        assert same_bits(tensor, values(before, length(tag), torch.float32, salt=tag)), tag


@on_ranks(2)
def test_messages_of_one_tag_keep_their_order():
    rank, _, after, before = ring()
    if rank == 0:
        works = [dist.isend(torch.full((3,), float(n)), after, tag=7) for n in range(50)]
        for work in works:
            work.wait()
    else:
        for n in range(50):
            tensor = torch.zeros(3)
            dist.recv(tensor, before, tag=7)
            assert torch.equal(tensor, torch.full((3,), float(n)))


@on_ranks(3, more=(4,))
def test_any_source():
    """Rank 0 learns from whom each message came."""
    rank, ranks, _, _ = ring()
    if rank == 0:
        sources = []
        for _ in range(4 * (ranks - 1)):
            tensor = torch.zeros(9)
            source = dist.recv(tensor, None, tag=3)
            assert torch.equal(tensor, torch.full((9,), float(source)))
            sources.append(source)
        assert sorted(sources) == sorted(4 * list(range(1, ranks)))
    else:
        for _ in range(4):
            dist.send(torch.full((9,), float(rank)), 0, tag=3)


@on_ranks(2, 3)
def test_a_collective_between_isend_and_wait():
    rank, ranks, after, before = ring()
    for count in (10, 1_000_000):
        sent = values(rank, count, torch.float32)
        work = dist.isend(sent, after, tag=1)
        total = torch.ones(1000)
        dist.all_reduce(total)
        assert torch.equal(total, torch.full((1000,), float(ranks)))
        got = torch.zeros(count)
        dist.recv(got, before, tag=1)
        work.wait()
        assert same_bits(got, values(before, count, torch.float32))


@on_ranks(2, 4)
def test_all_send_first():
    """batch_isend_irecv where every rank's send comes before its receive, with long messages."""
    rank, _, after, before = ring()
    sent, got = values(rank, 500_000, torch.float32), torch.zeros(500_000)
    ops = [dist.P2POp(dist.isend, sent, after), dist.P2POp(dist.irecv, got, before)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert same_bits(got, values(before, 500_000, torch.float32))


@on_ranks(2)
def test_both_directions_at_once():
    """Many messages each way; no rank waits before it has started all of its own."""
    rank, _, other, _ = ring()
    sent = [values(rank, 30_000, torch.int32, salt=n) for n in range(20)]
    got = [torch.zeros(30_000, dtype=torch.int32) for _ in sent]
    works = [dist.isend(tensor, other, tag=n) for n, tensor in enumerate(sent)]
    works += [dist.irecv(tensor, other, tag=n) for n, tensor in enumerate(got)]
    for work in works:
        work.wait()
    for n, tensor in enumerate(got):
        assert same_bits(tensor, values(other, 30_000, torch.int32, salt=n))


@on_ranks(3)
def test_ranks_of_a_group_are_named_by_their_numbers_in_the_world():
    rank, _, _, _ = ring()
    group = dist.new_group([2, 1])
    if rank == 0:
        return
    tensor = torch.full((4,), float(rank))
    if rank == 2:
        dist.send(tensor, 1, group=group)
    else:
        assert dist.recv(tensor, 2, group=group) == 2
        assert torch.equal(tensor, torch.full((4,), 2.0))
    dist.destroy_process_group(group)
