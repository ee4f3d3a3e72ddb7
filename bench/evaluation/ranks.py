# SPDX-License-Identifier: BSD-3-Clause
"""What programs that are one rank share: the groups of each way to sum, and their end. Needs PyTorch.

They are started with RANK, WORLD_SIZE and MASTER_ADDR set.
"""
import json
import os
import sys

import torch
import torch.distributed as dist

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, folder) for folder in ("examples", "bindings/python")]
import switchml.torch  # noqa: E402


class Groups:
    def __init__(self):
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        self.groups = {}

    def of(self, wire, switch=None):
        """wire: "" for the library's own choice, None for Gloo; switch: that of Options."""
        if (wire, switch) not in self.groups:
            settings = None if wire is None else switchml.torch.Options(wire=wire or None, switch=switch)
            self.groups[wire, switch] = dist.new_group(
                list(range(dist.get_world_size())), backend="switchml" if settings else "gloo", pg_options=settings)
        return self.groups[wire, switch]

    def close(self, found=None, path=None):
        """Rank 0 writes what was found."""
        if path and dist.get_rank() == 0:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(found, file)
        for group in self.groups.values():
            dist.destroy_process_group(group)
        dist.destroy_process_group()
