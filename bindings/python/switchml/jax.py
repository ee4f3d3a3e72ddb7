# SPDX-License-Identifier: BSD-3-Clause
"""JAX: all-reduce in the network, also inside jax.jit.

    import switchml.jax as switchml_jax

    @jax.jit
    def step(parameters, batch):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, batch)
        gradients = switchml_jax.allreduce(gradients, op="avg", wire="gradient")

Each rank is a process with one device, the CPU. Calls are ordered callbacks to the host. JAX
makes them in the order of the program, which must be the same on all ranks. Arrays may have
any type that switchml.allreduce() accepts. `job` is a switchml.Job; None is the job of
switchml.init().
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
from jax.experimental import io_callback

from . import _tensors
from ._buffer import whole
from ._settings import Op, Wire
from .job import Job

__all__ = ["allreduce", "broadcast"]


def _shapes(leaves: list[Any]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]


def _call(
    op: Op, wire: Wire | None, job: Job | None, leaves: list[Any], residuals: Any = None
) -> list[Any]:
    def call(*arrays: Any) -> list[Any]:
        return _tensors.allreduce_all(arrays, op, wire, job, residuals)

    # One callback for all leaves, so that they are under way together.
    return io_callback(call, _shapes(leaves), *leaves, ordered=True)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _combine(op: Op, wire: Wire | None, job: Job | None, leaves: list[Any]) -> list[Any]:
    return _call(op, wire, job, leaves)


def _forward(op: Op, wire: Wire | None, job: Job | None, leaves: list[Any]) -> tuple[Any, None]:
    return _combine(op, wire, job, leaves), None


def _backward(op: Op, wire: Wire | None, job: Job | None, _: None, upstream: list[Any]) -> Any:
    return (_combine(op, _tensors.gradient_wire(op, wire, TypeError), job, upstream),)


_combine.defvjp(_forward, _backward)


def allreduce(
    tree: Any,
    *,
    op: Op = "sum",
    wire: Wire | None = None,
    job: Job | None = None,
    residuals: Any = None,
) -> Any:
    """Combine the arrays of a pytree over all ranks, element by element.

    Every rank gets the same bits. "sum" and "avg" have gradients: those of the other
    ranks' losses with respect to this rank's arrays are summed, or averaged, too.

    Args:
        op, wire: as in switchml.Job.allreduce().
        residuals: the same pytree of NumPy's float32 arrays, for Job.allreduce(): memory of the
            host, which the call changes, also inside jax.jit. It has no gradient. Leave them alone
            until the result is ready; a compiled function keeps the arrays of its first call:
            change their elements, not the arrays.

    Raises:
        TypeError, ValueError; what Job.allreduce() raises comes as JAX's own error
        (jax.errors.JaxRuntimeError) with the same text.
    """
    leaves, structure = jax.tree.flatten(tree)
    leaves = [jax.numpy.asarray(whole(leaf)) for leaf in leaves]
    _tensors.check(op, wire, (leaf.dtype.name for leaf in leaves))
    if residuals is None:
        results = _combine(op, wire, job, leaves) if leaves else []
    else:
        kept = structure.flatten_up_to(residuals)
        _tensors.check_residuals(((leaf.dtype.name, leaf.size) for leaf in leaves), op, kept)
        results = _call(op, wire, job, leaves, kept)
    return jax.tree.unflatten(structure, results)


def broadcast(tree: Any, root: int = 0, *, job: Job | None = None) -> Any:
    """Root's arrays of a pytree, on every rank. They may have any type."""
    leaves, structure = jax.tree.flatten(tree)
    leaves = [jax.numpy.asarray(whole(leaf)) for leaf in leaves]

    def call(*arrays: Any) -> list[Any]:
        return _tensors.broadcast_all(arrays, root, job)

    found = io_callback(call, _shapes(leaves), *leaves, ordered=True) if leaves else []
    return jax.tree.unflatten(structure, found)
