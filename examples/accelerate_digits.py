#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a classifier of handwritten digits with Accelerate, through the switch.

    torchrun --nproc-per-node 4 examples/accelerate_digits.py

Accelerate refuses InitProcessGroupKwargs(backend="switchml") where it trains on CPUs.
It takes the process group that it finds, on CPUs and on GPUs.
"""

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from torch_ddp import ROOT, digits, network, report

EPOCHS = 10


def main():
    dist.init_process_group("switchml")  # torch_ddp.py has imported switchml.torch
    accelerator = Accelerator(cpu=True)
    training, test = digits(ROOT / "demo" / "digits.csv")
    model = network(width=128, depth=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(training, batch_size=32, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(EPOCHS):
        for pixels, labels in loader:
            optimizer.zero_grad()
            accelerator.backward(cross_entropy(model(pixels), labels))
            optimizer.step()
    report(accelerator.unwrap_model(model), test)
    accelerator.end_training()


if __name__ == "__main__":
    main()
