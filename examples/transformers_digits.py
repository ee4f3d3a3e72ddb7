#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a classifier of handwritten digits with Hugging Face's Trainer, through the switch.

    torchrun --nproc-per-node 4 examples/transformers_digits.py

TrainingArguments(ddp_backend="switchml") is refused, and without a process group, the Trainer
makes one of Gloo. It takes the group that it finds: make it first, and leave ddp_backend alone.
"""

import tempfile

import torch
import torch.distributed as dist
from torch_ddp import ROOT, digits, network, report
from transformers import Trainer, TrainingArguments


class Classifier(torch.nn.Module):
    """As the Trainer wants a model: it returns its loss."""

    def __init__(self):
        super().__init__()
        self.layers = network(width=128, depth=2)

    def forward(self, pixels, labels):
        logits = self.layers(pixels)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def main():
    dist.init_process_group("switchml")  # torch_ddp.py has imported switchml.torch
    training, test = digits(ROOT / "demo" / "digits.csv")
    rows = [{"pixels": pixels, "labels": label} for pixels, label in training]
    with tempfile.TemporaryDirectory() as place:
        arguments = TrainingArguments(
            output_dir=place,
            use_cpu=True,
            num_train_epochs=10,
            per_device_train_batch_size=32,
            learning_rate=0.003,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        model = Classifier()
        Trainer(model=model, args=arguments, train_dataset=rows).train()
    report(model.layers, test)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
