#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Measures the backend beside gloo: collectives of one tensor, and steps of a small model.
"""usage: torchrun --nproc-per-node N bindings/torch/benchmark.py [--json | --lines] [--rounds R]

Times are those of the slowest rank, in microseconds, medians of rounds in which the backends take
turns. "coll, shared" runs on tensors that the backend has allocated, which the other ranks read
where they lie. Ratios are gloo's time divided by ours: above 1, ours is faster. A step's exposed
communication is what it takes longer than the step of one rank alone. --lines prints what coll-plot
draws: an operation's times over sizes.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

SIZES = [8, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
OPERATIONS = ["all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor"]
SECONDS = 0.25  # of one measurement
TOKENS = (4, 64)  # of a step, on each rank


def timed(call, group):
    """Microseconds of a call, those of the slowest rank."""
    for _ in range(3):
        call()
    calls = 3
    while True:
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        took = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
        dist.all_reduce(took, op=dist.ReduceOp.MAX, group=group)
        if took.item() >= SECONDS / 2:
            return took.item() / calls * 1e6
        calls = max(2 * calls, int(calls * SECONDS / max(took.item(), 1e-6)))


def make_call(operation, group, size, make):
    ranks = dist.get_world_size()
    count = max(size // 4 // ranks, 1) * ranks
    if operation == "all_reduce":
        tensor = make(count)
        return lambda: dist.all_reduce(tensor, group=group)
    whole, part = make(count), make(count // ranks)
    if operation == "all_gather_into_tensor":
        return lambda: dist.all_gather_into_tensor(whole, part, group=group)
    return lambda: dist.reduce_scatter_tensor(part, whole, group=group)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.hidden = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                    nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.hidden(x)


class Language(nn.Module):
    """A small GPT on bytes."""
    def __init__(self, width=128, layers=4):
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, 256)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def make_step(kind, group):
    """A training step on so many tokens per rank."""
    torch.manual_seed(1)
    model = Language()
    if kind == "ddp":
        model = DistributedDataParallel(model, process_group=group)
    elif kind == "fsdp2":
        mesh = dist.device_mesh.DeviceMesh.from_group(group, "cpu")
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    tokens = torch.randint(256, (TOKENS[0], TOKENS[1] + 1))

    def step():
        out = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(out.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return step


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lines", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {"gloo": dist.group.WORLD, "coll": dist.new_group(backend="coll")}
    backend = groups["coll"]._get_backend(torch.device("cpu"))
    plain = lambda count: torch.ones(count)
    shared = lambda count: backend.allocate_tensor(
        count, dtype=torch.float32, device=torch.device("cpu")).fill_(1)

    rows = []
    def measure(what, size, calls):
        times = {name: [] for name in calls}
        for _ in range(options.rounds):
            for name, call in calls.items():
                times[name].append(timed(call, groups["gloo"]))
        rows.append({"what": what, "bytes": size,
                     **{name: statistics.median(each) for name, each in times.items()}})
        if dist.get_rank() == 0 and options.lines and size:
            for name in calls:
                dashed = "-" if name == "gloo" else ""
                print(f"{dashed}{name} {what},{size},{rows[-1][name]:.3f}", flush=True)
        elif dist.get_rank() == 0 and not options.json:
            row = rows[-1]
            ratios = "  ".join(f"{name} {row[name]:10.1f} ({row['gloo'] / row[name]:5.1f})"
                               for name in calls if name != "gloo")
            print(f"{what:24} {size or '':>9}  gloo {row['gloo']:10.1f}  {ratios}", flush=True)

    for operation in OPERATIONS:
        for size in SIZES:
            measure(operation, size, {
                "gloo": make_call(operation, groups["gloo"], size, plain),
                "coll": make_call(operation, groups["coll"], size, plain),
                "coll, shared": make_call(operation, groups["coll"], size, shared)})
    alone = make_step("alone", None)
    for kind in ("ddp", "fsdp2"):
        measure(f"step, {kind}", 0, {"alone": alone, **{
            name: make_step(kind, group) for name, group in groups.items()}})
        row = rows[-1]
        for name in groups:
            tokens = TOKENS[0] * TOKENS[1] * dist.get_world_size() / row[name] * 1e6
            row[f"{name}, tokens/s"] = tokens
            if dist.get_rank() == 0 and not options.json and not options.lines:
                print(f"{kind} over {name}: {tokens:.0f} tokens/s, "
                      f"{row[name] - row['alone']:.0f} us exposed communication")
    if dist.get_rank() == 0 and options.json:
        print(json.dumps({"ranks": dist.get_world_size(), "torch": torch.__version__,
                          "rows": rows}))
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
