# SPDX-License-Identifier: Apache-2.0
# What PyTorch hangs on a group: hooks, estimates of time, timeouts, coalescing managers.
import threading
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

from pool import lacks, on_ranks

CPU = torch.device("cpu")
SECOND = timedelta(seconds=1)


def backend_of(group):
    return group._get_backend(CPU)


def made_group():
    lacks("gloo", reason="a test of the plugin")
    return dist.new_group()


def send_once_met(x, group):
    """Rank 1's part: rank 0 issues a recv and meets it. So the thread of rank 0 that issued the recv
    is not the one that completes it."""
    dist.barrier()
    dist.send(x, 0, group=group)


# --- completion and abort ---


@on_ranks(2)
def test_a_completion_hook_is_told_of_every_operation():
    group, told = made_group(), []
    group._register_on_completion_hook(told.append)
    dist.all_reduce(torch.ones(5), group=group)
    works = [dist.all_reduce(torch.ones(5), group=group, async_op=True) for _ in range(10)]
    del works
    group._wait_for_pending_works()
    assert [info.seq for info in sorted(told, key=lambda info: info.seq)] == list(range(1, 12))
    assert {info.op_type.name for info in told} == {"ALLREDUCE"}
    assert all(info.active_duration >= timedelta(0) for info in told)


@on_ranks(2)
def test_a_hook_that_fails_keeps_no_future_from_its_end():
    def hook(_):
        raise RuntimeError("the hook's own")
    group = made_group()
    group._register_on_completion_hook(hook)
    x = torch.ones(5)
    future = dist.all_reduce(x, group=group, async_op=True).get_future()
    future.wait()
    assert x.tolist() == [dist.get_world_size()] * 5


@on_ranks(2)
def test_an_abort_hook_runs_at_an_abort():
    group, called = made_group(), threading.Event()
    dist.all_reduce(torch.ones(1), group=group)
    backend_of(group).register_abort_hook(7, called.set)
    assert backend_of(group).get_error().name == "SUCCESS"
    dist.barrier()  # an abort is an error on the other rank, too
    backend_of(group).abort()
    assert called.wait(20)
    with pytest.raises(dist.DistBackendError, match="aborted"):
        dist.all_reduce(torch.ones(1), group=group)


@on_ranks(2)
def test_after_wait_the_future_has_its_value():
    """Even if another thread completes the operation, and is in a hook."""
    group, inside, leave = made_group(), threading.Event(), threading.Event()

    def hook(_):
        inside.set()
        leave.wait(20)
    if dist.get_rank() == 1:
        return send_once_met(torch.arange(3.0), group)
    group._register_on_completion_hook(hook)
    work = dist.irecv(torch.zeros(3), 1, group=group)
    future, done = work.get_future(), []
    dist.barrier()

    def wait():
        work.wait()
        done.append(future.done())
    assert inside.wait(20)
    waiting = threading.Thread(target=wait)
    waiting.start()
    waiting.join(0.1)  # it must not return meanwhile
    assert not done and not work.is_completed()
    leave.set()
    waiting.join()
    assert done == [True] and future.value()[0].tolist() == [0, 1, 2]


@on_ranks(2)
def test_a_work_is_complete_once_its_future_is():
    """Even while the future's callback keeps the thread that completes the work."""
    group, leave = made_group(), threading.Event()
    if dist.get_rank() == 1:
        return send_once_met(torch.ones(1), group)
    work = dist.irecv(torch.zeros(1), 1, group=group)
    future = work.get_future()
    called = future.then(lambda _: leave.wait(20))
    dist.barrier()
    future.wait()
    assert work.is_completed() and not called.done()
    leave.set()
    assert called.wait()


# --- timeouts ---


@on_ranks(2)
def test_an_extension_of_the_timeout_ends_with_its_operation():
    group = made_group()

    def timeout_of_next():
        work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
        work.wait()
        return work.timeout
    backend_of(group).set_timeout(20 * SECOND)
    assert timeout_of_next() == 20 * SECOND
    backend_of(group)._add_ephemeral_timeout(5 * SECOND)
    assert timeout_of_next() == 25 * SECOND
    assert timeout_of_next() == 20 * SECOND
    backend_of(group)._add_ephemeral_timeout(5 * SECOND)
    with pytest.raises(ValueError, match="tag -5"):  # refused: it takes the extension with it
        group.recv([torch.ones(1)], 1 - dist.get_rank(), -5)
    assert timeout_of_next() == 20 * SECOND


@on_ranks(2)
def test_a_barrier_that_runs_later_returns_at_once():
    """Rank 1 answers the message first, then the collectives."""
    group = made_group()
    x, y = torch.ones(4), torch.zeros(1)
    if dist.get_rank() == 0:
        dist.all_reduce(x, group=group, async_op=True)
        barrier = dist.barrier(group=group, async_op=True)
        dist.send(torch.ones(1), 1, group=group)
        barrier.wait()
    else:
        dist.recv(y, 0, group=group)
        dist.all_reduce(x, group=group)
        dist.barrier(group=group)
    assert x.tolist() == [2.0] * 4


# --- estimates ---


@on_ranks(2)
def test_estimates_move_nothing_and_end():
    from torch.distributed.distributed_c10d import _time_estimator  # not in PyTorch 2.6
    group, x = made_group(), torch.ones(1 << 18)
    with _time_estimator(group=group, device=CPU) as estimator:
        dist.all_reduce(x, group=group)
        dist.recv(torch.ones(5), 1 - dist.get_rank(), group=group)
        other = threading.Thread(target=lambda: dist.all_reduce(torch.ones(1), group=group))
        other.start()  # another thread's operations run
        other.join()
    assert 0 < estimator.estimated_time < 1e6
    assert x[0] == 1
    dist.all_reduce(x, group=group)
    assert x[0] == dist.get_world_size()


# --- coalescing ---


@on_ranks(2)
def test_the_future_of_a_coalescing_manager():
    tensors = [torch.full((3,), float(i)) for i in range(4)]
    with _coalescing_manager(device=CPU, async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    for work in manager.works:
        work.get_future().wait()
    assert [tensor[0] for tensor in tensors] == [i * dist.get_world_size() for i in range(4)]


@on_ranks(2)
def test_a_refused_call_in_a_manager_leaves_the_others():
    group = made_group()
    x, y = torch.ones(4), torch.ones(3, 4).t()
    group._start_coalescing(CPU)
    with pytest.raises(ValueError, match="tag -5 is negative"):
        group.recv([y], 1 - dist.get_rank(), -5)
    group.allreduce([x])
    group._end_coalescing(CPU).wait()
    assert x.tolist() == [dist.get_world_size()] * 4 and torch.equal(y, torch.ones(4, 3))


@on_ranks(2)
def test_a_manager_left_by_an_exception_keeps_no_tensors():
    group = made_group()
    group._start_coalescing(CPU)  # nobody ends it
    places = set()
    for _ in range(3000):
        x = backend_of(group).allocate_tensor(1000, dtype=torch.float32, device=CPU)
        places.add(x.data_ptr())  # memory that was given back is allocated again
        dist.all_reduce(x, group=group)
    assert len(places) < 1500
    group._start_coalescing(CPU)
    work = group.allreduce([torch.ones(1)])
    group._end_coalescing(CPU).wait()
    assert work.is_completed()


# --- tensors ---


@pytest.mark.parametrize("call", ["all_reduce", "recv", "all_gather"])
@on_ranks(2)
def test_an_output_whose_elements_share_memory_is_refused(call):
    lacks("gloo", reason="refuses it later")
    wide = torch.zeros(1).expand(4)
    calls = {"all_reduce": lambda: dist.all_reduce(wide),
             "recv": lambda: dist.recv(wide, 1 - dist.get_rank()),
             "all_gather": lambda: dist.all_gather([wide] * dist.get_world_size(), torch.ones(4))}
    with pytest.raises(ValueError, match="share memory"):
        calls[call]()
    dist.barrier()
