# SPDX-License-Identifier: Apache-2.0
# DeepSpeed ZeRO 3: each rank keeps its share of parameters, gradients and optimizer states.
# DS_ACCELERATOR=cpu torchrun --nproc-per-node 2 examples/torch/deepspeed_zero3.py
import deepspeed
import torch
import torch.distributed as dist

CONFIG = {
    "train_micro_batch_size_per_gpu": 64,
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "torch_adam": True}},
    "zero_optimization": {"stage": 3},
}


def main():
    deepspeed.ops.__compatible_ops__ = {}  # it would compile an all_reduce of its own
    deepspeed.init_distributed(dist_backend="coll")
    torch.manual_seed(1)  # the same first model on all ranks
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    engine, *_ = deepspeed.initialize(model=model, config=CONFIG)
    torch.manual_seed(dist.get_rank())  # each rank has its own data
    inputs = torch.randn(64, 16)
    targets = inputs[:, :4].sum(1, keepdim=True).sin()
    for step in range(101):
        loss = torch.nn.functional.mse_loss(engine(inputs), targets)
        engine.backward(loss)
        engine.step()
        if step % 25 == 0:
            dist.all_reduce(loss := loss.detach(), op=dist.ReduceOp.AVG)
            if dist.get_rank() == 0:
                print(f"step {step:3}: loss {loss.item():.4f}")
    dist.destroy_process_group()


main()
