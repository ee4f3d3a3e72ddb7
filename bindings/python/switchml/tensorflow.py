# SPDX-License-Identifier: BSD-3-Clause
"""TensorFlow: gradients summed in the network, in Horovod's manner.

    import switchml.tensorflow as switchml_tf

    switchml.init()
    with switchml_tf.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = loss_of(model(inputs, training=True), labels)
    gradients = tape.gradient(loss, model.trainable_variables)   # the mean of all ranks'

or, for Keras, compile(switchml_tf.DistributedOptimizer(optimizer), jit_compile=False).

Call everything on all ranks in the same order, eagerly or in a tf.function; there
TensorFlow keeps the order of the program. XLA cannot call back, so not with
jit_compile=True. Tensors are of any type that switchml.allreduce() takes. `job` is a
switchml.Job; None is that of switchml.init().
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from . import _tensors
from ._buffer import whole
from ._settings import Op, Wire
from .job import Job

__all__ = ["DistributedGradientTape", "DistributedOptimizer", "allreduce", "broadcast_variables"]


def _allreduce_all(
    tensors: Sequence[tf.Tensor],
    op: Op,
    wire: Wire | None,
    job: Job | None,
    residuals: Any = None,
) -> list[tf.Tensor]:
    if not tensors:
        return []
    _tensors.check(op, wire, (tensor.dtype.name for tensor in tensors))
    if tf.executing_eagerly():
        results = _tensors.allreduce_all(tensors, op, wire, job, residuals)
        return [tf.convert_to_tensor(result) for result in results]

    # One call for all of them: TensorFlow would run separate calls in any order, which could
    # differ between ranks.
    def call(*arrays: Any) -> list[Any]:
        return _tensors.allreduce_all(arrays, op, wire, job, residuals)

    types = [tensor.dtype for tensor in tensors]
    results = tf.numpy_function(call, tensors, types, stateful=True, name="switchml_allreduce")
    for tensor, result in zip(tensors, results, strict=True):
        result.set_shape(tensor.shape)
    return list(results)


def allreduce(
    tensors: Any,
    *,
    op: Op = "sum",
    wire: Wire | None = None,
    job: Job | None = None,
    residuals: Any = None,
) -> Any:
    """Combine a tensor, or a structure of tensors, over all ranks, element by element.

    Every rank gets the same bits. "sum" and "avg" have gradients: those of the other
    ranks' losses with respect to this rank's tensors are summed, or averaged, too.

    Args:
        op, wire: as in switchml.Job.allreduce().
        residuals: the same structure of NumPy's float32 arrays, for Job.allreduce(): memory of
            the host, which the call changes, also within a tf.function. Leave them alone until
            the result is ready; a compiled function keeps the arrays of its first call: change
            their elements, not the arrays.

    Raises:
        TypeError, ValueError, and eagerly whatever Job.allreduce() raises; within a
        tf.function that comes as a tf.errors.OpError with the same text.
    """
    flat = [tf.convert_to_tensor(whole(tensor)) for tensor in tf.nest.flatten(tensors)]
    kept = None
    if residuals is not None:
        tf.nest.assert_same_structure(tensors, residuals)
        kept = tf.nest.flatten(residuals)

    @tf.custom_gradient
    def combine(*inputs: tf.Tensor) -> tuple[list[tf.Tensor], Any]:
        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor]:
            its = _tensors.gradient_wire(op, wire, LookupError)
            return _allreduce_all(upstream, op, its, job)

        return _allreduce_all(inputs, op, wire, job, kept), gradient

    return tf.nest.pack_sequence_as(tensors, combine(*flat) if flat else [])


def broadcast_variables(
    variables: Iterable[tf.Variable], root: int = 0, *, job: Job | None = None
) -> None:
    """Give the variables of all ranks the values of root's variables: once, before training.

    Works eagerly only. For a Keras model, call it after build(), with model.variables and
    optimizer.variables.
    """
    variables = list(variables)
    values = _tensors.broadcast_all([variable.numpy() for variable in variables], root, job)
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _reduce_gradients(
    gradients: Sequence[Any], op: Op, wire: Wire | None, job: Job | None
) -> list[Any]:
    """None stays None, for variables that the loss does not depend on, on any rank."""
    present = [
        tf.convert_to_tensor(whole(gradient)) for gradient in gradients if gradient is not None
    ]
    reduced = iter(_allreduce_all(present, op, wire, job))
    return [None if gradient is None else next(reduced) for gradient in gradients]


class DistributedGradientTape:
    """A tf.GradientTape whose gradient() is the mean (or sum) over all ranks.

    Everything else works as in the tape. Sparse gradients (tf.IndexedSlices) become dense.
    """

    def __init__(
        self,
        tape: tf.GradientTape,
        *,
        op: Op = "avg",
        wire: Wire | None = "gradient",
        job: Job | None = None,
    ) -> None:
        _tensors.check(op, wire)
        self._tape, self._op, self._wire, self._job = tape, op, wire, job

    def __enter__(self) -> DistributedGradientTape:
        self._tape.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._tape.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    def gradient(self, target: Any, sources: Any, *arguments: Any, **named: Any) -> Any:
        """Like tf.GradientTape.gradient(), combined over all ranks."""
        gradients = self._tape.gradient(target, sources, *arguments, **named)
        flat = _reduce_gradients(tf.nest.flatten(gradients), self._op, self._wire, self._job)
        return tf.nest.pack_sequence_as(gradients, flat)


def DistributedOptimizer(
    optimizer: Any, *, op: Op = "avg", wire: Wire | None = "gradient", job: Job | None = None
) -> Any:
    """Make a Keras optimizer apply the mean (or sum) of all ranks' gradients.

    Changes and returns the same optimizer. A saved model contains the plain optimizer.
    """
    _tensors.check(op, wire)
    plain = type(optimizer)

    class Distributed(plain):
        def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
            reduced = _reduce_gradients(list(grads), op, wire, job)
            return super().apply(reduced, trainable_variables)

    # The class keeps its name, so that Keras can save and load it.
    Distributed.__name__, Distributed.__qualname__ = plain.__name__, plain.__qualname__
    Distributed.__module__ = plain.__module__
    optimizer.__class__ = Distributed
    return optimizer
