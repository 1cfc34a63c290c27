# SPDX-License-Identifier: Apache-2.0
# What a call is besides its result: its title in profiles, its work and future, its factor, its
# refusal.
import torch
import torch.distributed as dist
import pytest

from oracle import FLOATS, same_bits, values, wrong
from pool import Setting, lacks, on_ranks

Op = dist.ReduceOp


def ring():
    """This rank, the number of ranks, the next rank and the one before."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return rank, ranks, (rank + 1) % ranks, (rank - 1) % ranks


# --- titles ---


def call_all_reduce(x, _):
    dist.all_reduce(x)


def call_broadcast(x, _):
    dist.broadcast(x, 0)


def call_reduce(x, _):
    dist.reduce(x, 0)


def call_all_gather(x, ranks):
    dist.all_gather([torch.empty_like(x) for _ in range(ranks)], x)


def call_all_gather_into_tensor(x, ranks):
    dist.all_gather_into_tensor(x.new_empty(ranks * x.numel()), x)


def call_reduce_scatter(x, ranks):
    dist.reduce_scatter(x, [x.clone() for _ in range(ranks)])


def call_reduce_scatter_tensor(x, ranks):
    dist.reduce_scatter_tensor(x, x.repeat(ranks))


def call_all_to_all(x, ranks):
    dist.all_to_all_single(x.new_empty(ranks * x.numel()), x.repeat(ranks))


def call_gather(x, ranks):
    dist.gather(x, [torch.empty_like(x) for _ in range(ranks)] if dist.get_rank() == 0 else None)


def call_scatter(x, ranks):
    dist.scatter(x, [x.clone() for _ in range(ranks)] if dist.get_rank() == 0 else None)


def call_barrier(_x, _ranks):
    dist.barrier()


def call_send_and_recv(x, _):
    (dist.send if dist.get_rank() == 0 else dist.recv)(x, 1 - dist.get_rank())


TITLES = [(call_all_reduce, "all_reduce"), (call_broadcast, "broadcast"), (call_reduce, "reduce"),
          (call_all_gather, "all_gather"), (call_all_gather_into_tensor, "_all_gather_base"),
          (call_reduce_scatter, "reduce_scatter"),
          (call_reduce_scatter_tensor, "_reduce_scatter_base"), (call_all_to_all, "all_to_all"),
          (call_gather, "gather"), (call_scatter, "scatter"), (call_barrier, "barrier"),
          (call_send_and_recv, None)]


@pytest.mark.parametrize("case", range(len(TITLES)), ids=[f.__name__[5:] for f, _ in TITLES])
@on_ranks(2)
def test_a_profile_shows_one_event_per_call(case):
    function, title = TITLES[case]
    if title in ("_all_gather_base", "_reduce_scatter_base", "reduce_scatter", "barrier"):
        lacks("gloo", reason="other titles, or none")
    title = title or ("send" if dist.get_rank() == 0 else "recv")
    tensor = torch.ones(10)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        function(tensor, dist.get_world_size())
    ours = [event.name for event in profile.events() if event.name.startswith(Setting.backend + ":")]
    assert ours == [f"{Setting.backend}:{title}"]


# --- works and futures ---


@on_ranks(1, 2, 3)
def test_future_has_the_outputs():
    rank, ranks, _, _ = ring()
    tensor = torch.full((7,), float(rank))
    work = dist.all_reduce(tensor, async_op=True)
    doubled = work.get_future().then(lambda done: done.value()[0] * 2)
    total = ranks * (ranks - 1) / 2
    assert torch.equal(doubled.wait(), torch.full((7,), 2 * total))
    assert torch.equal(tensor, torch.full((7,), total))
    assert work.is_success() and work.exception() is None


@on_ranks(2)
def test_many_calls_in_flight_end_in_any_order_of_waits():
    rank, ranks, _, _ = ring()
    inputs = [[values(r, 1 + 501 * n, torch.float32, salt=n) for n in range(40)] for r in range(ranks)]
    tensors = [tensor.clone() for tensor in inputs[rank]]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for n in reversed(range(40)):
        works[n].wait()
        assert wrong(tensors[n], [x[n] for x in inputs], Op.SUM) is None


@on_ranks(2)
def test_a_call_that_nobody_waits_for_runs():
    rank, _, _, _ = ring()
    tensor = torch.full((100_000,), float(rank + 1))
    dist.all_reduce(tensor, async_op=True)
    dist.barrier()
    later = torch.zeros(1)
    dist.all_reduce(later)  # behind it in the group's order
    work = dist.all_reduce(torch.zeros(1), async_op=True)
    work.wait()
    assert torch.equal(tensor, torch.full((100_000,), 3.0))


@on_ranks(2, 3)
def test_unequal_lists():
    """Blocks of different lengths, also of none, in lists."""
    lacks("gloo", reason="lists of one length only")
    rank, ranks, _, _ = ring()
    mine = values(rank, 5 * rank, torch.int32)
    outputs = [torch.zeros(5 * r, dtype=torch.int32) for r in range(ranks)]
    dist.all_gather(outputs, mine)
    for r, output in enumerate(outputs):
        assert same_bits(output, values(r, 5 * r, torch.int32))
    blocks = [values(rank, 3 * r, torch.int32, salt=r) for r in range(ranks)]
    output = torch.zeros(3 * rank, dtype=torch.int32)
    dist.reduce_scatter(output, blocks)
    inputs = [values(r, 3 * rank, torch.int32, salt=rank) for r in range(ranks)]
    assert wrong(output, inputs, Op.SUM) is None


@on_ranks(2)
def test_sparse_all_reduce():
    rank, _, _, _ = ring()
    tensor = torch.sparse_coo_tensor([[rank, 5]], [1.0, 2.0], (10,))
    dist.all_reduce(tensor)
    wanted = torch.zeros(10).index_add(0, torch.tensor([0, 1, 5]), torch.tensor([1.0, 1.0, 4.0]))
    assert torch.equal(tensor.to_dense(), wanted)


# --- the factor of PREMUL_SUM ---


@pytest.mark.parametrize("form", ["number", "tensor"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@on_ranks(1, 2, 3)
def test_premul_sum(dtype, form):
    lacks("gloo", reason="no PREMUL_SUM")
    rank, ranks, _, _ = ring()
    factor = 0.375  # exact in every type, but products of it are not
    op = dist._make_nccl_premul_sum(factor if form == "number" else torch.tensor([factor], dtype=dtype))
    for count in (0, 1, 1023, 90090):
        inputs = [values(r, count, dtype) for r in range(ranks)]
        products = [(tensor.double() * factor).to(dtype) for tensor in inputs]
        tensor = inputs[rank].clone()
        dist.all_reduce(tensor, op=op)
        assert wrong(tensor, products, Op.SUM) is None
        whole = torch.cat([values(rank, count, dtype, salt=to + 1) for to in range(ranks)])
        before, output = whole.clone(), torch.zeros(count, dtype=dtype)
        dist.reduce_scatter_tensor(output, whole, op=op)
        shares = [(values(r, count, dtype, salt=rank + 1).double() * factor).to(dtype)
                  for r in range(ranks)]
        assert wrong(output, shares, Op.SUM) is None
        assert same_bits(whole, before)


# --- what is refused: by the rank that asks for it, at once ---


def refused():
    """Name -> a call that must raise."""
    ranks = dist.get_world_size()
    group = dist.group.WORLD
    x = torch.ones(4)
    flags = torch.ones(4, dtype=torch.bool)
    sparse = lambda: torch.sparse_coo_tensor([[0]], [1.0], (4,))
    calls = {
        "meta": lambda: group._get_backend(x.device).allreduce(
            [torch.empty(4, device="meta")]),  # PyTorch itself lets all_reduce do nothing to these
        "sparse broadcast": lambda: dist.broadcast(sparse(), 0),
        "short list": lambda: dist.all_gather([torch.empty(4)] * (ranks - 1), x),
        "other type": lambda: dist.all_gather([torch.empty(4, dtype=torch.int32)] * ranks, x),
        "gather_into other type": lambda: dist.all_gather_into_tensor(
            torch.empty(4 * ranks, dtype=torch.int32), x),
        "gather_into wrong size": lambda: dist.all_gather_into_tensor(torch.empty(4 * ranks + 1), x),
        "reduce_scatter wrong size": lambda: dist.reduce_scatter_tensor(
            torch.empty(3), torch.ones(4 * ranks)),
        "splits too long": lambda: dist.all_to_all_single(
            torch.empty(4 * ranks), torch.ones(4 * ranks), [4] * ranks, [5] * ranks),
        "avg of bool": lambda: dist.all_reduce(flags.clone(), op=Op.AVG),
        "band of floats": lambda: dist.all_reduce(x.clone(), op=Op.BAND),
        "max of complex": lambda: dist.all_reduce(torch.ones(4, dtype=torch.complex64), op=Op.MAX),
        "premul of bool": lambda: dist.all_reduce(flags.clone(), op=dist._make_nccl_premul_sum(2.0)),
        "root out of range": lambda: group.broadcast(x.clone(), ranks).wait(),
        "output with gaps": lambda: dist.all_gather_into_tensor(torch.empty(8 * ranks)[::2], x),
        "send to itself": lambda: dist.send(x, dist.get_rank()),
        "tag below 0": lambda: group.send([x], (dist.get_rank() + 1) % ranks, -3).wait(),
        "scatter without list": lambda: dist.scatter(x.clone(), None, src=dist.get_rank()),
        "quantised": lambda: dist.all_reduce(torch.quantize_per_tensor(x, 1.0, 0, torch.qint8)),
        "splits of too few": lambda: dist.all_to_all_single(
            torch.empty(4 * ranks), torch.ones(4 * ranks), [4 * ranks], [4 * ranks]),
        "reduce_scatter other type": lambda: dist.reduce_scatter_tensor(
            torch.empty(4), torch.ones(4 * ranks, dtype=torch.int32)),
    }
    return calls


REFUSED = ["meta", "sparse broadcast", "short list", "other type", "gather_into other type",
           "gather_into wrong size", "reduce_scatter wrong size", "splits too long", "avg of bool",
           "band of floats", "max of complex", "premul of bool", "root out of range",
           "output with gaps", "send to itself", "tag below 0", "scatter without list", "quantised",
           "splits of too few", "reduce_scatter other type"]


@pytest.mark.parametrize("name", REFUSED)
@on_ranks(2, limit=20)
def test_one_rank_is_refused_and_the_group_goes_on(name):
    """No other rank calls: the error comes before anything is sent, and harms nothing."""
    if name in ("meta", "tag below 0", "quantised", "avg of bool", "band of floats", "premul of bool",
                "output with gaps"):
        lacks("gloo", reason="accepts it, or errs in the work")
    if dist.get_rank() == 0:
        with pytest.raises((RuntimeError, ValueError, TypeError)) as error:
            refused()[name]()
        assert len(str(error.value)) > 10
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.full((3,), 2.0))
