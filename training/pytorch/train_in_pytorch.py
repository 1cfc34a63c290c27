#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# What beside-pytorch runs under a Python that has PyTorch: train_in_pytorch.py losses|speed JOB, where JOB is JSON.
# Prints JSON. With `speed` it is one of the ranks that coll-run started.
import contextlib
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist

from gpt_in_pytorch import Gpt, adamw, read_safetensors
from text_batches import TextBatches

CLIP = 1.0  # coll-train's default
WARM_UP = 3


def step(model, optimizer, batches, rate, communicates=True):
    """One step over micro-batches, of which the last one communicates; their mean loss, and the gradient's norm."""
    optimizer.zero_grad(set_to_none=False)
    loss = 0.0
    for i, batch in enumerate(batches):
        silent = hasattr(model, "no_sync") and not (communicates and i + 1 == len(batches))
        with model.no_sync() if silent else contextlib.nullcontext():
            one = model(batch) / len(batches)
            one.backward()
        loss += one.item()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return loss, norm.item()


def losses(job, model, batches):
    optimizer, found = adamw(model), []
    for number, rate in enumerate(job["rates"]):
        first = number * job["micro_batches"]
        own = [torch.tensor(batches(i)) for i in range(first, first + job["micro_batches"])]
        found.append(step(model, optimizer, own, rate))
    return {"losses": [loss for loss, _ in found], "norms": [norm for _, norm in found]}


def timed(job, model, batches, joined):
    """Medians over steps with and without communication, by turns; `joined`: a rank's micro-batches are one batch."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own = job["micro_batches"] // ranks
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer, times = adamw(model), {True: [], False: []}
    for number in range(WARM_UP + job["steps"]):
        first = number * job["micro_batches"] + rank * own
        mine = [torch.tensor(batches(i)) for i in range(first, first + own)]
        if joined:
            mine = [torch.cat(mine)]
        for communicates in (True, False):
            dist.barrier()
            begin = time.perf_counter()
            step(model, optimizer, mine, 1e-3, communicates)
            if number >= WARM_UP:
                times[communicates].append(time.perf_counter() - begin)
    median = {key: statistics.median(found) for key, found in times.items()}
    tokens = job["micro_batches"] * job["sequences"] * job["tokens"]
    return {"tokens_per_second": tokens / median[True], "step_seconds": median[True],
            "exposed_seconds": median[True] - median[False]}


def product_speed():
    """GFLOP/s of the products in the GPT's largest layer: tells a PyTorch that has a slow BLAS."""
    a, b = torch.rand(1024, 128), torch.rand(128, 512)
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - begin)
    return 2 * 1024 * 128 * 512 / min(times) / 1e9


def main():
    mode, job = sys.argv[1], json.loads(sys.argv[2])
    torch.set_num_threads(1)
    batches = TextBatches(job["data"], job["seed"], job["sequences"], job["tokens"])
    result = {"version": torch.__version__}
    if mode == "losses":
        result.update(losses(job, Gpt(read_safetensors(job["init"]), job["heads"]), batches))
    else:
        result["gflops_of_products"] = product_speed()
        dist.init_process_group("gloo")
        for name, joined in (("accumulating", False), ("one batch for each rank", True)):
            model = Gpt(read_safetensors(job["init"]), job["heads"])
            result[name] = timed(job, model, batches, joined)
        rank = dist.get_rank()
        dist.destroy_process_group()
        if rank != 0:
            return
    print(json.dumps(result))


if __name__ == "__main__":
    main()
