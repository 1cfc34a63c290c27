# SPDX-License-Identifier: Apache-2.0
# Fully sharded training (FSDP2): each rank keeps its share of parameters and optimizer states.
# torchrun --nproc-per-node 2 examples/torch/fsdp.py
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main():
    dist.init_process_group("coll")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0,
                                                                   batch_first=True)
                                  for _ in range(3)], torch.nn.Linear(32, 1))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(dist.get_rank())  # each rank has its own data
    inputs = torch.randn(32, 8, 32)
    targets = inputs.mean(2, keepdim=True)
    for step in range(41):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            dist.all_reduce(loss := loss.detach(), op=dist.ReduceOp.AVG)
            if dist.get_rank() == 0:
                print(f"step {step:3}: loss {loss.item():.4f}")
    dist.destroy_process_group()


main()
