# SPDX-License-Identifier: Apache-2.0
# Every collective with every type, operation, length and layout, waited for and not: bits of
# integers and of moved data, reductions of floats against float64.
import itertools
import warnings

import pytest
import torch
import torch.distributed as dist

from oracle import ALL, COMPLEX, GLOO_LACKS, make, ops_of, same_bits, values, wrong
from pool import Setting, lacks, on_ranks

LENGTHS = [0, 1, 4, 1023, 90090]
LENGTHS_OF_ONE = [5, 0, 1, 1023, 20]  # of the tensors of one coalesced call
types = pytest.mark.parametrize("dtype", ALL, ids=lambda t: str(t).removeprefix("torch."))


def layouts(count):
    if Setting.backend == "gloo" or count == 0:
        return ["contiguous"]
    return ["contiguous", "transposed", "gaps"] + (["scalar"] if count == 1 else [])


def call(function, *arguments, later, **named):
    """Calls a collective and waits for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        work = function(*arguments, async_op=later, **named)
    assert (work is not None) == later
    if later:
        work.wait()
        ended = work.done() if isinstance(work, torch.Future) else work.is_completed()
        assert ended or Setting.backend == "gloo"  # its reduce_scatter says no


def check(problems):
    """Fails with the first few of the problems: (case, reason or None)."""
    found = [f"{case}: {reason}" for case, reason in problems if reason]
    assert not found, f"{len(found)} cases, such as\n" + "\n".join(found[:8])


def moved(got, wanted):
    return None if same_bits(got, wanted) else f"got {got}, not {wanted}"


def world(dtype):
    if dtype in GLOO_LACKS:
        lacks("gloo", reason=f"no {dtype}")
    return dist.get_rank(), dist.get_world_size()


def blocks(rank, ranks, count, dtype):
    """What a rank has for each rank."""
    return [values(rank, count, dtype, salt=to + 1) for to in range(ranks)]


@types
@on_ranks(1, 2, 3, more=(4,))
def test_all_reduce(dtype):
    rank, ranks = world(dtype)

    def cases():
        for count, op, later in itertools.product(LENGTHS, ops_of(dtype), (False, True)):
            inputs = [values(r, count, dtype) for r in range(ranks)]
            for layout in layouts(count):
                tensor = make(inputs[rank], layout)
                call(dist.all_reduce, tensor, op=op, later=later)
                yield (count, op.name, later, layout), wrong(tensor, inputs, op)
    check(cases())


@types
@on_ranks(2, more=(1, 3, 4))
def test_reduce(dtype):
    rank, ranks = world(dtype)

    def cases():
        for count, op, root in itertools.product(LENGTHS, ops_of(dtype), range(ranks)):
            inputs = [values(r, count, dtype) for r in range(ranks)]
            for layout in layouts(count):
                tensor = make(inputs[rank], layout)
                call(dist.reduce, tensor, root, op=op, later=count == 4)
                if rank == root:
                    yield (count, op.name, layout), wrong(tensor, inputs, op)
                elif Setting.backend != "gloo":  # gloo leaves other ranks' tensors undefined
                    yield (count, op.name, layout, "not root"), moved(tensor, inputs[rank])
    check(cases())


@types
@on_ranks(1, 2, 3, more=(4,))
def test_reduce_scatter(dtype):
    """The forms with a list and with one tensor."""
    rank, ranks = world(dtype)

    def cases():
        for count, op, later in itertools.product(LENGTHS, ops_of(dtype), (False, True)):
            wanted = [values(r, count, dtype, salt=rank + 1) for r in range(ranks)]
            mine = blocks(rank, ranks, count, dtype)
            for layout in layouts(count):
                output = make(torch.zeros(count, dtype=dtype), layout)
                call(dist.reduce_scatter, output, [make(block, layout) for block in mine], op=op,
                     later=later)
                yield (count, op.name, later, layout), wrong(output, wanted, op)
            output, whole = torch.zeros(count, dtype=dtype), torch.cat(mine)
            call(dist.reduce_scatter_tensor, output, whole, op=op, later=later)
            yield (count, op.name, later, "tensor"), wrong(output, wanted, op)
            yield (count, op.name, later, "input"), moved(whole, torch.cat(mine))
    check(cases())


@types
@on_ranks(1, 2, more=(3, 4))
def test_broadcast(dtype):
    rank, ranks = world(dtype)

    def cases():
        for count, root, later in itertools.product(LENGTHS, range(ranks), (False, True)):
            for layout in layouts(count):
                tensor = make(values(rank, count, dtype), layout)
                call(dist.broadcast, tensor, root, later=later)
                yield (count, root, later, layout), moved(tensor, values(root, count, dtype))
    check(cases())


@types
@on_ranks(1, 2, 3, more=(4,))
def test_all_gather(dtype):
    """The forms with a list, with one tensor, and with one tensor of one dimension more."""
    rank, ranks = world(dtype)

    def cases():
        for count, later in itertools.product(LENGTHS, (False, True)):
            wanted = [values(r, count, dtype) for r in range(ranks)]
            for layout in layouts(count):
                outputs = [make(torch.zeros(count, dtype=dtype), layout) for _ in wanted]
                call(dist.all_gather, outputs, make(wanted[rank], layout), later=later)
                for output, block in zip(outputs, wanted):
                    yield (count, later, layout), moved(output, block)
            for shape in ((ranks * count,), (ranks, count)):
                if Setting.backend == "gloo" and len(shape) > 1:
                    continue
                output = torch.zeros(shape, dtype=dtype)
                call(dist.all_gather_into_tensor, output, wanted[rank].clone(), later=later)
                yield (count, later, shape), moved(output, torch.cat(wanted))
    check(cases())


@types
@on_ranks(1, 2, 3, more=(4,))
def test_all_to_all(dtype):
    """The forms with one tensor, even and with unequal parts, and with lists."""
    rank, ranks = world(dtype)

    def cases():
        for count, later in itertools.product(LENGTHS, (False, True)):
            mine = blocks(rank, ranks, count, dtype)
            wanted = [values(r, count, dtype, salt=rank + 1) for r in range(ranks)]
            output = torch.zeros(ranks * count, dtype=dtype)
            call(dist.all_to_all_single, output, torch.cat(mine), later=later)
            yield (count, later, "single"), moved(output, torch.cat(wanted))
            # Rank r sends (r + to) % 3 elements of its block to rank `to`: also none.
            some = lambda r, to: min(count, (r + to) % 3)
            splits = [some(rank, to) for to in range(ranks)], [some(r, rank) for r in range(ranks)]
            output = torch.zeros(sum(splits[1]), dtype=dtype)
            call(dist.all_to_all_single, output,
                 torch.cat([block[:n] for block, n in zip(mine, splits[0])]), splits[1], splits[0],
                 later=later)
            parts = [block[:n] for block, n in zip(wanted, splits[1])]
            yield (count, later, "unequal"), moved(output, torch.cat(parts))
            if Setting.backend == "gloo":
                continue
            outputs = [torch.zeros_like(part) for part in parts]
            call(dist.all_to_all, outputs, [block[:n] for block, n in zip(mine, splits[0])],
                 later=later)
            for got, part in zip(outputs, parts):
                yield (count, later, "lists"), moved(got, part)
    check(cases())


@types
@on_ranks(1, 2, more=(3, 4))
def test_gather_and_scatter(dtype):
    rank, ranks = world(dtype)
    if dtype in COMPLEX:
        lacks("gloo", reason="no gather of complex numbers")

    def cases():
        for count, root, later in itertools.product(LENGTHS, range(ranks), (False, True)):
            for layout in layouts(count):
                wanted = [values(r, count, dtype) for r in range(ranks)]
                outputs = [make(torch.zeros(count, dtype=dtype), layout) for _ in wanted]
                call(dist.gather, make(wanted[rank], layout), outputs if rank == root else None,
                     dst=root, later=later)
                if rank == root:
                    for output, block in zip(outputs, wanted):
                        yield (count, root, later, layout, "gather"), moved(output, block)
                inputs = [make(block, layout) for block in blocks(root, ranks, count, dtype)]
                output = make(torch.zeros(count, dtype=dtype), layout)
                call(dist.scatter, output, inputs if rank == root else None, src=root, later=later)
                yield (count, root, later, layout, "scatter"), moved(
                    output, values(root, count, dtype, salt=rank + 1))
    check(cases())


@types
@on_ranks(2, more=(3, 4))
def test_coalesced(dtype):
    """Many tensors in one call."""
    rank, ranks = world(dtype)

    def cases():
        inputs = [[values(r, n, dtype, salt=n) for n in LENGTHS_OF_ONE] for r in range(ranks)]
        for op in ops_of(dtype):
            if Setting.backend == "gloo" and dtype in COMPLEX:
                break
            tensors = [tensor.clone() for tensor in inputs[rank]]
            call(dist.all_reduce_coalesced, tensors, op=op, later=True)
            for n, tensor in enumerate(tensors):
                yield ("all_reduce_coalesced", op.name, n), wrong(tensor, [x[n] for x in inputs], op)
        outputs = [[torch.zeros_like(tensor) for tensor in inputs[0]] for _ in range(ranks)]
        call(dist.all_gather_coalesced, outputs, inputs[rank], later=True)
        for r in range(ranks):
            for n, tensor in enumerate(inputs[r]):
                yield ("all_gather_coalesced", r, n), moved(outputs[r][n], tensor)
    check(cases())


@types
@on_ranks(2, more=(3, 4))
def test_coalescing_manager(dtype):
    """Calls that become one: what they wrote is there when the manager's work has ended."""
    rank, ranks = world(dtype)
    lacks("gloo", reason="no coalescing")
    together = lambda: dist._coalescing_manager(device=torch.device("cpu"), async_ops=True)

    def cases():
        inputs = [[values(r, n, dtype, salt=n) for n in LENGTHS_OF_ONE] for r in range(ranks)]
        for op in ops_of(dtype):
            tensors = [tensor.clone() for tensor in inputs[rank]]
            with together() as manager:
                for tensor in tensors:
                    dist.all_reduce(tensor, op=op)
            manager.wait()
            for n, tensor in enumerate(tensors):
                yield ("all_reduce", op.name, n), wrong(tensor, [x[n] for x in inputs], op)
        joined = [torch.zeros(ranks * n, dtype=dtype) for n in LENGTHS_OF_ONE]
        with together() as manager:
            for output, tensor in zip(joined, inputs[rank]):
                dist.all_gather_into_tensor(output, tensor)
        manager.wait()
        for n, output in enumerate(joined):
            yield ("all_gather_into_tensor", n), moved(output, torch.cat([x[n] for x in inputs]))
        op = ops_of(dtype)[0]
        shares = [torch.zeros(n, dtype=dtype) for n in LENGTHS_OF_ONE]
        with together() as manager:
            for n, output in zip(LENGTHS_OF_ONE, shares):
                dist.reduce_scatter_tensor(output, torch.cat(blocks(rank, ranks, n, dtype)), op=op)
        manager.wait()
        for n, output in zip(LENGTHS_OF_ONE, shares):
            yield ("reduce_scatter_tensor", n), wrong(
                output, [values(r, n, dtype, salt=rank + 1) for r in range(ranks)], op)
    check(cases())
