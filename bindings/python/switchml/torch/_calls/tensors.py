# SPDX-License-Identifier: BSD-3-Clause
"""Converts tensors and arguments of torch.distributed to the form that this package needs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C import _distributed_c10d as _c10d
from torch.distributed import ReduceOp

from ... import _library as c
from ..._buffer import OF_NAME
from ..._tensor_memory import is_host_memory, is_plain, kind_of, ready
from ..._wait import stored


def _device_types() -> list[str]:
    accelerator = torch.accelerator.current_accelerator()
    others = [accelerator.type] if accelerator is not None else []
    return list(dict.fromkeys(["cpu", "cuda", *others]))


# Those whose tensors a group takes. PyTorch has at most one accelerator.
DEVICE_TYPES = _device_types()

# What C calls them.
TYPES = {getattr(torch, name): number for name, number in OF_NAME.items()}
# PyTorch's operations, and C's. Compared one after the other, because PyTorch takes long to hash
# them; most calls add.
_OPS = (
    (ReduceOp.SUM, c.SUM),
    (ReduceOp.AVG, c.AVG),
    (ReduceOp.MAX, c.MAX),
    (ReduceOp.MIN, c.MIN),
)


def numbers_of(tensors: Sequence[torch.Tensor], op: ReduceOp) -> tuple[int, ...]:
    """What C calls the type and the operation; () if it does not have them, or types differ."""
    dtype = tensors[0].dtype if tensors else None
    kind = TYPES.get(dtype)
    if kind is None:
        return ()
    for tensor in tensors:
        if tensor.dtype is not dtype:
            return ()
    for theirs, ours in _OPS:
        if op == theirs:
            return () if kind == c.BOOL and ours == c.AVG else (kind, ours)
    return ()


def is_accelerated(tensor: torch.Tensor) -> bool:
    return not tensor.is_cpu and tensor.device.type in DEVICE_TYPES


@contextlib.contextmanager
def on_stream(stream: torch.Stream) -> Iterator[None]:
    """As `with stream`, which refuses a stream that another thread has entered."""
    device = torch.accelerator.current_device_index()
    before = torch.accelerator.current_stream(stream.device)
    torch.accelerator.set_stream(stream)  # and its device
    try:
        yield
    finally:
        torch.accelerator.set_stream(before)
        torch.accelerator.set_device_index(device)


# Arguments of these types wait for nothing.
_READY = {torch.Tensor, type(None), timedelta, int, bool}
_READY |= {kind for name, kind in vars(_c10d).items() if name.endswith("Options")}


def all_ready(arguments: tuple) -> tuple:
    """ready() of each, quickly."""
    for value in arguments:
        if type(value) in _READY:
            continue
        if type(value) is not list or len(value) != 1 or type(value[0]) not in _READY:
            return tuple(map(ready, arguments))
    return arguments


def normal(
    tensors: Any, opts: Any, kind: type, op: Any = None, timeout: Any = None, root: Any = None
) -> tuple[list, Any]:
    """Convert the different ways of calling a method to one: a list, and options.

    PyTorch's methods take either options or, in an order of their own, an operation, a root and a
    timeout. Each of these has another type, so here they may come in any order.
    """
    if type(tensors) is list and type(opts) is kind and op is timeout is root is None:
        return list(tensors), opts  # quickly: so do torch.distributed and C++
    if isinstance(tensors, torch.Tensor):
        tensors = [tensors]
    given = [value for value in (opts, op, timeout, root) if value is not None]
    opts = next((value for value in given if isinstance(value, kind)), None) or kind()
    for value in given:
        if isinstance(value, timedelta):
            opts.timeout = value
        elif isinstance(value, int):
            opts.rootRank = value
        elif not isinstance(value, kind):
            opts.reduceOp = value
    return list(tensors), opts


def as_sum(
    name: str, inputs: list, opts: Any, in_place: bool
) -> tuple[list, Any, Callable[[], None] | None]:
    """PREMUL_SUM, FSDP's, as the sum of what each rank has multiplied before: inputs and options.

    The caller's options stay as they are, because it may use them again. In place, the last one
    multiplies the inputs, once: when nothing can refuse the call any more.
    """
    _, factor = opts.reduceOp.__getstate__()
    if not all(t.is_floating_point() or t.is_complex() for t in inputs):
        raise NotImplementedError(f"{name}: PREMUL_SUM multiplies floats, not {describe(inputs)}")
    scale = None
    if in_place:
        scale = functools.partial(_multiply, inputs, factor, [])
    else:
        inputs = [t.detach().mul(factor) for t in inputs]
    sums = type(opts)()
    for member in ("asyncOp", "rootRank", "rootTensor", "timeout"):
        if hasattr(opts, member):
            setattr(sums, member, getattr(opts, member))
    sums.reduceOp = ReduceOp(ReduceOp.SUM)
    return inputs, sums, scale


def _multiply(tensors: Sequence[torch.Tensor], factor: Any, products: list) -> None:
    """Again, if the application was interrupted in here: the products are made once."""
    elements = [(t._values() if t.is_sparse else t).detach() for t in tensors]
    if not products:
        stored(products, lambda: [its.mul(factor) for its in elements])
    for its, product in zip(elements, products[0], strict=True):
        its.copy_(product)


def only_options(name: str, opts: Any, kind: type) -> Any:
    """Those of a method that takes nothing else. Raises TypeError, as PyTorch 2.14 does."""
    if opts is not None and not isinstance(opts, kind):
        raise TypeError(f"{name} takes {kind.__name__}, and not {type(opts).__name__}")
    return opts or kind()


def tensors_in(arguments: Any) -> list[torch.Tensor]:
    """The tensors among arguments, which may be nested lists."""
    found: list[torch.Tensor] = []
    _collect([arguments], found)
    return found


def _collect(values: Sequence[Any], found: list[torch.Tensor]) -> None:
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            _collect(value, found)


@functools.cache  # PyTorch takes long to name them
def _name_of_type(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def describe(tensors: Sequence[torch.Tensor], op: ReduceOp | None = None) -> str:
    if not tensors:
        return "no tensors"
    first = tensors[0]
    text = _name_of_type(first.dtype)
    if first.layout is not torch.strided:
        text += f" ({str(first.layout).removeprefix('torch.')})"
    elif not is_plain(first):
        text += f" ({kind_of(first)})"
    if first.device.type != "cpu":
        text += f" on {first.device.type}"
    return text if op is None else f"{text}, {str(op.op).rpartition('.')[2]}"


def writable(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory, as copy_to() takes it. Raises ValueError if there is none."""
    if torch._is_zerotensor(tensor):
        raise ValueError("a tensor with the zero bit cannot be written: pass tensor.clone()")
    return tensor.detach() if tensor.requires_grad else tensor


def dense(tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], Callable[[], None] | None]:
    """The tensors in contiguous form, and a function that copies their elements back, or None."""
    copies: list[tuple[torch.Tensor, torch.Tensor]] = []
    flat = []
    for given in tensors:
        tensor = writable(given)
        if tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
            flat.append(tensor)
            continue
        copy = tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        copies.append((tensor, copy))
        flat.append(copy)
    return flat, functools.partial(_copy_back, copies) if copies else None


def _copy_back(copies: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    for tensor, copy in copies:
        copy_to(tensor, copy)


def copy_to(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> None:
    """target.copy_(source), where `target` may be expanded, or made in inference mode.

    A thread of ours is not in the mode of the thread that made the call. Elements that share
    memory get the value of the first of them.
    """
    with torch.inference_mode(target.is_inference()):
        for dim, step in enumerate(target.stride()):
            if step == 0 and target.size(dim) > 1:
                target, source = target.narrow(dim, 0, 1), source.narrow(dim, 0, 1)
        target.copy_(source, non_blocking=non_blocking)


class Begun:
    """A call of Gloo's that has begun, or is to begin."""

    def __init__(self) -> None:
        self.works: list[Any] = []  # Gloo's, if it has begun
        self.copies: list[tuple[torch.Tensor, torch.Tensor]] = []  # back, when it has ended

    def finish(self) -> None:
        """Again, if the application was interrupted in here."""
        self.works[0].wait()
        _copy_back(self.copies)


def on_dense(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of Gloo's, which reads and writes memory as if every tensor was contiguous.

    The first argument has the outputs. If they must be copied back, the call returns when it has
    ended: only then can they be. With `begun`, the caller does that, also if the application is
    interrupted when the call has begun.
    """

    def call(*arguments: Any, begun: Begun | None = None, **named: Any) -> Any:
        outputs: list[tuple[torch.Tensor, torch.Tensor]] = []
        inputs: list[tuple[torch.Tensor, torch.Tensor]] = []
        first, *others = arguments or (None,)
        first = _dense_in(first, inputs if name == "send" else outputs)
        if outputs and name.startswith("recv"):
            raise ValueError(
                f"{name} needs a contiguous tensor without a conjugate, negative or zero bit: "
                "pass one, and copy it"
            )
        others = [_dense_in(other, inputs) for other in others]
        given = (first, *others) if arguments else ()
        ours = Begun() if begun is None else begun
        ours.copies = outputs
        stored(ours.works, functools.partial(method, *given, **named))
        if outputs and begun is None:
            ours.finish()
        return ours.works[0]

    return call


def _dense_in(value: Any, copies: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
    """The same with contiguous copies in place of tensors that Gloo cannot use as they are."""
    if isinstance(value, list):
        return [_dense_in(item, copies) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    if (is_host_memory(value) and value.is_contiguous()) or not is_plain(value):
        return value
    (flat,), finish = dense([value])
    if finish is None:
        return value
    copies.append((value.detach(), flat))
    return flat


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the two tensors may share a byte."""
    if a.device != b.device or not a.numel() or not b.numel():
        return False
    return a.data_ptr() < _end_of(b) and b.data_ptr() < _end_of(a)


def _end_of(tensor: torch.Tensor) -> int:
    """The address behind its last element."""
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr() + (last + 1) * tensor.element_size()
