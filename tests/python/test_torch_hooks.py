# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's own communication hooks, in Python and in C++: gradients as with Gloo.

Those of bfloat16 need NCCL, PyTorch says, and those that quantize fail with Gloo, too.
"""

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

N = 2


def register(model, hook):
    from torch.distributed.algorithms.ddp_comm_hooks import (
        debugging_hooks,
        default_hooks,
        post_localSGD_hook,
        powerSGD_hook,
    )

    if hook.startswith("built-in "):
        kind = getattr(dist.BuiltinCommHookType, hook.removeprefix("built-in "))
        model._register_builtin_comm_hook(kind)
    elif hook == "FP16_COMPRESS at the reducer":
        kind = dist.BuiltinCommHookType.FP16_COMPRESS
        dist._register_builtin_comm_hook(model.reducer, kind)
    elif "powerSGD" in hook:
        state = powerSGD_hook.PowerSGDState(  # compresses every layer
            None, 2, start_powerSGD_iter=2, min_compression_rate=1
        )
        plain = powerSGD_hook.powerSGD_hook
        wrapped = default_hooks.fp16_compress_wrapper(plain)
        model.register_comm_hook(state, plain if hook == "powerSGD" else wrapped)
    elif hook == "post_localSGD":
        state = post_localSGD_hook.PostLocalSGDState(None, dist.new_group(), start_localSGD_iter=2)
        model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    elif hook == "noop":
        model.register_comm_hook(None, debugging_hooks.noop_hook)
    else:
        model.register_comm_hook(None, getattr(default_hooks, hook))


def gradients(rank, hook):
    """Of four steps, in buckets."""
    torch.manual_seed(4)
    net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    model = DistributedDataParallel(net, bucket_cap_mb=0.002)
    register(model, hook)
    found = []
    for step in range(4):
        model.zero_grad()
        model((torch.arange(256.0).view(4, 64) % (7 + rank + step)) / 8).square().sum().backward()
        found.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    return found


HOOKS = {  # and by how much of the largest gradient the results may differ from Gloo's
    "built-in ALLREDUCE": 1e-5,
    "built-in FP16_COMPRESS": 2e-3,
    "FP16_COMPRESS at the reducer": 2e-3,
    "allreduce_hook": 1e-5,
    "fp16_compress_hook": 2e-3,
    "powerSGD": 1e-2,
    "fp16 wrapper of powerSGD": 2e-2,
    "post_localSGD": 1e-5,
    "noop": 0,
}


@pytest.mark.parametrize("hook", HOOKS)
def test_pytorchs_hooks_give_gloos_gradients(groups, gloo, hook):
    expected, ranks = (them.call(gradients, [hook] * N) for them in (gloo, groups))
    for found, wanted in zip(ranks, expected, strict=True):
        for ours, theirs, first in zip(found, wanted, ranks[0], strict=True):
            assert hook == "noop" or torch.equal(ours, first)
            assert (ours - theirs).abs().max() <= HOOKS[hook] * theirs.abs().max()
