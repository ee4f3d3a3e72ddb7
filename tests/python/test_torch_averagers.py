# SPDX-License-Identifier: BSD-3-Clause
"""torch's own averagers of parameters: models that are equal on all ranks stay as they are."""

import contextlib
import os
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.model_averaging import averagers, utils

from groups import Groups, stop
from switches import switch, switch_in_kernel

N = 4
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


FORMS = ["this host's memory", "ranks that add", "a switch", "a switch in the kernel"]


@pytest.fixture(scope="module", params=FORMS)
def form(request):
    settings, network = {}, None
    with contextlib.ExitStack() as stack:
        if request.param != FORMS[0]:
            settings["SWITCHML_SHARED_MEMORY"] = "0"
        if request.param == "a switch":
            settings["SWITCHML_SWITCH"] = stack.enter_context(switch())
        elif request.param == "a switch in the kernel":
            settings["SWITCHML_SWITCH"], network = stack.enter_context(switch_in_kernel())
        stack.enter_context(mock.patch.dict(os.environ, settings))
        ranks = stack.enter_context(Groups(N, network=network))
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
