# SPDX-License-Identifier: BSD-3-Clause
"""torch's own averagers of parameters: models that are equal on all ranks stay as they are."""

import os
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.distributed.algorithms.model_averaging import averagers, utils  # noqa: E402

from groups import Groups, stop  # noqa: E402
from switches import switch  # noqa: E402

N = 4
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.fixture(scope="module", params=["this host's memory", "ranks that add", "a switch"])
def form(request):
    with switch() as address:
        settings = {
            "this host's memory": {},
            "ranks that add": {"SWITCHML_HOST_GROUP": "0"},
            "a switch": {"SWITCHML_HOST_GROUP": "0", "SWITCHML_SWITCH": address},
        }[request.param]
        with mock.patch.dict(os.environ, settings), Groups(N) as ranks:
            yield ranks
            ranks.call(stop)


def layer(dtype):
    """Elements of very different sizes. A quarter of each, which is what the averagers add up, is
    exact in float16, too."""
    torch.manual_seed(7)
    made = torch.nn.TransformerEncoderLayer(64, 4, 256)
    with torch.no_grad():
        for parameter in made.parameters():
            smaller = parameter.abs() * torch.rand(parameter.shape).mul(-9).exp2()
            parameter.copy_(parameter.sign() * smaller.clamp(min=2.0**-11))
    return made.to(dtype)


def at_once(parameters):
    utils.average_parameters(parameters, dist.group.WORLD)


def now_and_then(parameters):
    """As post-local SGD does; only what has a gradient."""
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    averager = averagers.PeriodicModelAverager(period=2, warmup_steps=1)
    for _ in range(4):
        averager.average_parameters(parameters)


def changed_by(rank, average, dtype):
    """How many elements of how many."""
    parameters = list(layer(dtype).parameters())
    before = [parameter.detach().clone() for parameter in parameters]
    average(parameters)
    changed = sum(int((old != new).sum()) for old, new in zip(before, parameters, strict=True))
    return changed, sum(parameter.numel() for parameter in parameters)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("average", [at_once, now_and_then])
def test_equal_models_stay_as_they_are(form, average, dtype):
    outcomes = form.call(changed_by, [average] * N, [dtype] * N)
    assert outcomes == [(0, outcomes[0][1])] * N and outcomes[0][1] > 10000
