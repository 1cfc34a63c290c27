# SPDX-License-Identifier: Apache-2.0
# Packages that train with PyTorch: the same training over gloo and over the backend loses the same.
import importlib
import os
import tempfile

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pool import Setting

RANKS = 2


@pytest.fixture
def trainers(need, sides):
    """The pools of gloo and of the backend under test. Their ranks have what this process imports
    before it forks them."""
    need("accelerate", "deepspeed", "lightning", "transformers")
    os.environ["DS_ACCELERATOR"] = "cpu"
    for module in ("accelerate", "deepspeed", "lightning.pytorch", "transformers.trainer"):
        importlib.import_module(module)
    return sides(RANKS)


def as_under_torchrun():
    """Tells the packages what they read from the environment. The ranks have met already."""
    os.environ.update(RANK=str(dist.get_rank()), LOCAL_RANK=str(dist.get_rank()),
                      WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT="1", OMP_NUM_THREADS="1")


def layers():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 6))


def batch(index):
    return torch.randn(8, 12, generator=torch.Generator().manual_seed(Setting.seed % 1000 + index))


def own_batch(step):
    return batch(step * RANKS + dist.get_rank())


# --- the programs: each returns the losses of at least five steps ---


def deepspeed_zero(stage, bf16):
    import deepspeed
    as_under_torchrun()
    deepspeed.ops.__compatible_ops__ = {}  # it would compile an all_reduce of its own
    engine, *_ = deepspeed.initialize(model=layers(), config={
        "train_micro_batch_size_per_gpu": 8, "gradient_clipping": 1.0, "bf16": {"enabled": bf16},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
        "zero_optimization": {"stage": stage}})
    losses = []
    for step in range(5):
        inputs = own_batch(step).to(torch.bfloat16 if bf16 else torch.float32)
        loss = engine(inputs).float().square().mean()
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    engine.destroy()
    return losses


def lightning_trained(strategy):
    import lightning.pytorch as lightning
    as_under_torchrun()

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = layers()
            self.losses = []

        def configure_model(self):
            if self.device_mesh is not None:
                from torch.distributed.fsdp import fully_shard
                fully_shard(self.layers, mesh=self.device_mesh["data_parallel"])

        def training_step(self, inputs, _):
            loss = self.layers(inputs[0]).square().mean()
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    model = Model()
    data = TensorDataset(torch.cat([batch(index) for index in range(10)]))
    lightning.Trainer(
        accelerator="cpu", devices=RANKS, strategy=strategy, max_epochs=1, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    ).fit(model, DataLoader(data, batch_size=8))
    return model.losses


def lightning_ddp():
    from lightning.pytorch.strategies import DDPStrategy
    return lightning_trained(DDPStrategy(process_group_backend=dist.get_backend()))


def lightning_fsdp2():
    from lightning.pytorch.strategies import ModelParallelStrategy
    return lightning_trained(ModelParallelStrategy(
        data_parallel_size=RANKS, tensor_parallel_size=1,
        process_group_backend=dist.get_backend()))


def accelerate_trained():
    import accelerate
    as_under_torchrun()
    accelerator = accelerate.Accelerator(cpu=True)
    data = DataLoader(torch.cat([batch(index) for index in range(10)]), batch_size=8)
    model = layers()
    model, optimizer, data = accelerator.prepare(
        model, torch.optim.AdamW(model.parameters(), lr=1e-2), data)
    losses = []
    for inputs in data:
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses += accelerator.gather(loss.detach().reshape(1)).tolist()
    return losses


def transformers_trained():
    import transformers
    as_under_torchrun()
    torch.manual_seed(5)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2))
    tokens = torch.randint(64, (40, 16), generator=torch.Generator().manual_seed(Setting.seed))
    with tempfile.TemporaryDirectory() as folder:
        trainer = transformers.Trainer(
            model=model, train_dataset=[{"input_ids": row, "labels": row} for row in tokens],
            args=transformers.TrainingArguments(
                folder, use_cpu=True, max_steps=5, per_device_train_batch_size=4, report_to=[],
                logging_steps=1, save_strategy="no", learning_rate=1e-2, disable_tqdm=True))
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return losses + [p.double().sum().item() for p in model.parameters()]  # losses are rounded


PROGRAMS = [
    *(pytest.param(deepspeed_zero, {"stage": stage, "bf16": bf16},
                   id=f"deepspeed_zero{stage}_{'bf16' if bf16 else 'f32'}")
      for stage in (1, 2, 3) for bf16 in (False, True)),
    *(pytest.param(program, {}, id=program.__name__)
      for program in (lightning_ddp, lightning_fsdp2, accelerate_trained, transformers_trained))]


def operations():
    """What this rank's groups have done over the library, all of which must be on it."""
    import collectives_torch
    groups = list(dist.distributed_c10d._world.pg_map)
    assert {dist.get_backend(group) for group in groups} == {Setting.backend}
    return sum(collectives_torch.stats(group)["operations"] for group in groups)


@pytest.mark.parametrize("program, arguments", PROGRAMS)
def test_losses_equal_those_of_gloo(trainers, program, arguments):
    gloo, ours = trainers
    wanted = gloo.run(program, **arguments)
    before = ours.run(operations)
    assert ours.run(program, **arguments) == wanted  # of two ranks: sums have one order
    assert all(len(losses) >= 5 for losses in wanted)
    assert all(now >= then + 5 for now, then in zip(ours.run(operations), before))
