# SPDX-License-Identifier: Apache-2.0
# Data parallel training: each rank learns from its own part of the data, and all get one model.
# torchrun --nproc-per-node 2 examples/torch/ddp.py
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("coll")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)  # the same first model and data on all ranks
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=3e-3)
    inputs = torch.randn(1024, 16)
    targets = inputs[:, :4].sum(1, keepdim=True).sin()
    for step in range(101):
        loss = torch.nn.functional.mse_loss(ddp(inputs[rank::ranks]), targets[rank::ranks])
        optimizer.zero_grad()
        loss.backward()  # all_reduces the gradients meanwhile
        optimizer.step()
        if step % 25 == 0:
            dist.all_reduce(loss := loss.detach(), op=dist.ReduceOp.AVG)
            if rank == 0:
                print(f"step {step:3}: loss {loss.item():.4f}")
    dist.destroy_process_group()


main()
