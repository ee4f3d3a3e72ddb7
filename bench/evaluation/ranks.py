# SPDX-License-Identifier: BSD-3-Clause
"""What programs that are one rank share: their arguments, the groups of each way to sum, and the end. Needs PyTorch.

training_runs.py starts them, with RANK, WORLD_SIZE and MASTER_ADDR set.
"""
import json
import os
import sys

import torch
import torch.distributed as dist

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, folder) for folder in ("examples", "bindings/python")]
import switchml.torch  # noqa: E402


def wire_of(way):
    """The wire that a way to sum names, or None: Gloo."""
    return next((word for word in way.split("-") if word.startswith("int")), None)


class Groups:
    def __init__(self):
        self.groups = {}

    def of(self, way):
        """The group of a way: "int16", say, or "int16-stripes" and "ranks-int16", which have no switch."""
        wire, switch = wire_of(way), "embedded" if "stripes" in way or "ranks" in way else None
        if (wire, switch) not in self.groups:
            settings = switchml.torch.Options(wire=wire, switch=switch) if wire else None
            self.groups[wire, switch] = dist.new_group(
                list(range(dist.get_world_size())), backend="switchml" if settings else "gloo", pg_options=settings)
        return self.groups[wire, switch]


def main(find):
    """find: a function of the groups and of the options, which are the second argument (JSON). Rank 0 writes what
    it returns to the file of the first one."""
    path, options = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = Groups()
    found = find(groups, **json.loads(options))
    if dist.get_rank() == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(found, file)
    for group in groups.groups.values():
        dist.destroy_process_group(group)
    dist.destroy_process_group()
