# SPDX-License-Identifier: Apache-2.0
# Tensors of the backend, DDP's buckets and FSDP2's buffers lie in memory that ranks share.
import os

import pytest
import torch
import torch.distributed as dist
from torch import nn

from pool import lacks, on_ranks

CPU = torch.device("cpu")


def is_shared(tensor):
    """Does the tensor lie in the library's memory? The process's list of mappings names it."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            begin, end = (int(number, 16) for number in line.split()[0].split("-"))
            if begin <= tensor.data_ptr() < end:
                return "memfd:coll-" in line
    return False


def allocate(count, dtype=torch.float32):
    lacks("gloo", reason="has no memory of its own")
    return dist.group.WORLD._get_backend(CPU).allocate_tensor(count, dtype=dtype, device=CPU)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
@on_ranks(2)
def test_tensors_of_the_backend(dtype):
    tensor = allocate(100_000, dtype)
    assert tensor.shape == (100_000,) and tensor.dtype == dtype and is_shared(tensor)
    assert not is_shared(torch.empty(100_000, dtype=dtype))
    tensor.fill_(1)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.full((100_000,), dist.get_world_size(), dtype=dtype))


@on_ranks(2)
def test_memory_comes_back():
    assert len({allocate(16 << 20).data_ptr() for _ in range(20)}) == 1


@on_ranks(2)
def test_no_elements():
    tensor = allocate(0)
    dist.all_reduce(tensor)
    assert tensor.numel() == 0


@on_ranks(2)
def test_other_devices_are_refused():
    lacks("gloo", reason="has no memory of its own")
    with pytest.raises(ValueError, match="tensors of the CPU, not of meta"):
        dist.group.WORLD._get_backend(CPU).allocate_tensor(1, dtype=torch.float32,
                                                           device=torch.device("meta"))


@on_ranks(2)
def test_a_tensor_outlives_its_group():
    lacks("gloo", reason="has no memory of its own")
    group = dist.new_group()
    tensor = group._get_backend(CPU).allocate_tensor(10, dtype=torch.float32, device=CPU).fill_(3)
    dist.destroy_process_group(group)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [3.0 * dist.get_world_size()] * 10


@on_ranks(2)
def test_buckets_of_ddp():
    """PyTorch asks a backend for memory only with this variable."""
    lacks("gloo", reason="has no memory of its own")
    seen = []

    def hook(_, bucket):
        seen.append(is_shared(bucket.buffer()))
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(
            lambda future: future.value()[0])
    os.environ["DDP_DISABLE_COMM_MEM"] = "0"
    try:
        model = nn.parallel.DistributedDataParallel(nn.Linear(30, 20))
    finally:
        del os.environ["DDP_DISABLE_COMM_MEM"]
    model.register_comm_hook(None, hook)
    model(torch.ones(5, 30)).sum().backward()
    assert seen and all(seen)


@on_ranks(2)
def test_buffers_of_fsdp2():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    lacks("gloo", reason="has no memory of its own")
    seen = []

    def watched(function):
        def call(output, input, *arguments, **named):
            seen.append((function.__name__, is_shared(output), is_shared(input)))
            return function(output, input, *arguments, **named)
        return call
    model = fully_shard(nn.Linear(64, 64), mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    model.set_allocate_memory_from_process_group_for_comm(True)
    originals = dist.all_gather_single, dist.reduce_scatter_single
    dist.all_gather_single, dist.reduce_scatter_single = map(watched, originals)
    try:
        model(torch.ones(5, 64)).sum().backward()
    finally:
        dist.all_gather_single, dist.reduce_scatter_single = originals
    assert {name for name, _, _ in seen} == {"all_gather_single", "reduce_scatter_single"}
    assert all(output and input for _, output, input in seen), seen
