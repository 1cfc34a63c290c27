# SPDX-License-Identifier: Apache-2.0
# Lightning: its trainer runs DDP. ModelParallelStrategy takes the backend's name, too.
# torchrun --nproc-per-node 2 examples/torch/lightning_ddp.py
import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(),
                                          torch.nn.Linear(64, 1))

    def training_step(self, batch, _):
        inputs, targets = batch
        return torch.nn.functional.mse_loss(self.layers(inputs), targets)

    def on_train_batch_end(self, outputs, batch, batch_index):
        if self.trainer.is_last_batch and self.current_epoch % 3 == 0:
            loss = self.trainer.strategy.reduce(outputs["loss"])
            self.print(f"epoch {self.current_epoch:2}: loss {loss.item():.4f}")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main():
    lightning.seed_everything(1)  # the same first model and data on all ranks
    inputs = torch.randn(1024, 16)
    data = TensorDataset(inputs, inputs[:, :4].sum(1, keepdim=True).sin())
    lightning.Trainer(
        accelerator="cpu", devices=2, strategy=DDPStrategy(process_group_backend="coll"),
        max_epochs=13, logger=False, enable_checkpointing=False, enable_model_summary=False,
        enable_progress_bar=False,
    ).fit(Model(), DataLoader(data, batch_size=64, shuffle=True))  # each rank gets its part


main()
