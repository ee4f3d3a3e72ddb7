#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a classifier of handwritten digits with Ray Train, through the switch.

    python3 examples/ray_digits.py --workers 4

Ray makes the process group before the training function runs, so a worker imports
switchml.torch as it starts: that is what `worker_process_setup_hook` is for.
"""

import argparse
import os
from pathlib import Path

import ray
from ray.train import ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

EPOCHS = 10
EXAMPLES = Path(__file__).resolve().parent


def register():
    """In every worker: register the backend."""
    import torch_ddp  # noqa: F401  (it imports switchml.torch)


def train():
    import ray.train.torch
    import torch
    from torch_ddp import ROOT, digits, network, report

    training, test = digits(ROOT / "demo" / "digits.csv")
    model = ray.train.torch.prepare_model(network(width=128, depth=2))
    loader = torch.utils.data.DataLoader(training, batch_size=32, shuffle=True)
    loader = ray.train.torch.prepare_data_loader(loader)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(EPOCHS):
        loader.sampler.set_epoch(epoch)
        for pixels, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(pixels), labels).backward()
            optimizer.step()
    report(model.module, test)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    workers = parser.parse_args().workers
    path = os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
    ray.init(
        num_cpus=workers + 1,
        include_dashboard=False,
        runtime_env={
            "env_vars": {"PYTHONPATH": path},
            "worker_process_setup_hook": register,
        },
    )
    TorchTrainer(
        train,
        torch_config=TorchConfig(backend="switchml"),
        scaling_config=ScalingConfig(num_workers=workers),
    ).fit()


if __name__ == "__main__":
    main()
