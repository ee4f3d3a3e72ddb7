# SPDX-License-Identifier: BSD-3-Clause
"""The package's metadata tells PyTorch 2.14 of the backend, so that no import is needed."""

import pytest

from programs import as_installed, run_ranks
from switchml.torch._group.gateway import IS_DISPATCHED

WITHOUT_IMPORT = """
import sys
import torch
import torch.distributed as dist

assert not any(name.partition(".")[0] == "switchml" for name in sys.modules)
dist.init_process_group("SwitchML")
x = torch.ones(3)
dist.all_reduce(x)
print(type(dist.group.WORLD).__name__, x.tolist())
dist.destroy_process_group()
"""
BY_HAND = """
from importlib.metadata import entry_points

(found,) = entry_points(group="torch.distributed.backends", name="switchml")
found.load()()
found.load()()
import torch.distributed as dist

print(found.name, found.name in dist.Backend.backend_list)
"""

REPLACED = """
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel as DDP
import torch

def functions():
    spaces = (dist, c10d, DDP, torch._C.Future)
    return [dict(vars(space)) for space in spaces], torch._C._collect_all

def changed(before):
    return sorted({
        name
        for was, now in zip(before[0], functions()[0])
        for name in was
        if callable(was[name]) and now[name] is not was[name]
    })

before = functions()
import switchml.torch
print(changed(before), before[1] is torch._C._collect_all)
dist.init_process_group("switchml", store=dist.HashStore(), rank=0, world_size=1)
print("monitored_barrier" in changed(before), "then" in changed(before))
dist.destroy_process_group()
"""


@pytest.fixture
def installed(tmp_path):
    """Run a program where the package seems to be installed. Returns the lines that it says."""
    path = as_installed(tmp_path)

    def run(program):
        codes, said = run_ranks(1, "-c", program, PYTHONPATH=path)
        assert codes == [0], said
        return said[0].splitlines()

    return run


def test_the_entry_point_registers_the_backend(installed):
    assert "switchml True" in installed(BY_HAND)


@pytest.mark.skipif(not IS_DISPATCHED, reason="PyTorch looks for entry points since 2.14")
def test_a_program_needs_no_import(installed):
    assert "ProcessGroupSwitchML [1.0, 1.0, 1.0]" in installed(WITHOUT_IMPORT)


def test_only_the_first_group_replaces_functions_of_pytorch(installed):
    said = installed(REPLACED)
    assert [line for line in said if line.endswith("True")] == ["[] True", "True True"]
