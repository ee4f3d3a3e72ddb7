# SPDX-License-Identifier: BSD-3-Clause
"""Calls that run on Gloo, and others that ranks may make instead, in pairs of ranks."""

from datetime import timedelta

import torch
import torch.distributed as dist

N = 2


def ones(size=4):
    return torch.ones(size)


def halves():
    return [torch.ones(2) for _ in range(N)]


def tensors():
    return [ones() for _ in range(N)]


def on_root(made, root, group):
    return made if dist.get_rank(group) == root else None


def gather_to(root, group):
    dist.gather(ones(), on_root(tensors(), root, group), root, group=group)


PRODUCT = "allreduce of 4 float32, PRODUCT"
# What runs on Gloo, and a part of its name in the error.
ON_GLOO = {
    PRODUCT: lambda g: dist.all_reduce(ones(), dist.ReduceOp.PRODUCT, group=g),
    "allreduce of 4 float32 (sparse_coo), SUM": lambda g: dist.all_reduce(
        torch.sparse_coo_tensor([[1]], [1.0], (4,)), group=g
    ),
    "reduce of 4 float32, PRODUCT, root 1": lambda g: dist.reduce(
        ones(), 1, dist.ReduceOp.PRODUCT, group=g
    ),
    "all_to_all_single of float32": lambda g: dist.all_to_all_single(ones(), ones(), group=g),
    "alltoall of float32": lambda g: dist.all_to_all(halves(), halves(), group=g),
    "gather of float32, root 0": lambda g: gather_to(0, g),
    "gather of float32, root 1": lambda g: gather_to(1, g),
    "scatter of float32, root 0": lambda g: dist.scatter(
        ones(), on_root(tensors(), 0, g), 0, group=g
    ),
    "reduce_scatter of complex64, SUM": lambda g: dist.reduce_scatter(
        ones(2).to(torch.complex64), [half.to(torch.complex64) for half in halves()], group=g
    ),
    "reduce_scatter_single of 4 complex64, SUM": lambda g: dist.reduce_scatter_tensor(
        ones(2).to(torch.complex64), ones().to(torch.complex64), group=g
    ),
    "monitored_barrier": lambda g: dist.monitored_barrier(g, timedelta(seconds=100)),
}
BEFORE_2_13 = torch.__version__ < (2, 13)
MISSING_BEFORE_2_13 = (
    "reduce_scatter of complex64, SUM",
    "reduce_scatter_single of 4 complex64, SUM",
    "alltoall of float32",
)
ON_SWITCH = {
    "4 float32, sum": lambda g: dist.all_reduce(ones(), group=g),
    "called barrier": lambda g: dist.barrier(g),
}
OTHER_ON_GLOO = {
    "allreduce of 40000 float32, PRODUCT": lambda g: dist.all_reduce(
        ones(40_000), dist.ReduceOp.PRODUCT, group=g
    ),
}
CALLS = {**ON_GLOO, **ON_SWITCH, **OTHER_ON_GLOO}
