#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a classifier of handwritten digits with Lightning, through the switch.

torchrun --nproc-per-node 4 examples/lightning_digits.py
"""

import os

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from torch_ddp import ROOT, digits, network, report

EPOCHS = 10


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = network(width=128, depth=2)

    def training_step(self, batch, _):
        pixels, labels = batch
        return cross_entropy(self.network(pixels), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def main():
    training, test = digits(ROOT / "demo" / "digits.csv")
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
        # torch_ddp.py has imported switchml.torch, which registers the backend.
        strategy=DDPStrategy(process_group_backend="switchml"),
        max_epochs=EPOCHS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Classifier()
    trainer.fit(model, DataLoader(training, batch_size=32, shuffle=True))
    report(model.network, test)


if __name__ == "__main__":
    main()
