# SPDX-License-Identifier: BSD-3-Clause
"""What the memory of a PyTorch tensor does not show.

C reads and writes that memory. But the elements of a wrapper are in another tensor, those of a
quantized tensor have a scale, and those of a lazy tensor are computed when PyTorch reads
them. The invariant: only a plain tensor that is not lazy is its memory.
"""

from __future__ import annotations

from typing import Any

import torch

# Of the CPU and of accelerators; PrivateUse1 is what PyTorch calls those of other packages.
_DEVICES = ("CPU", "CUDA", "XPU", "PrivateUse1")
_LAZY_KEYS = ("Conjugate", "Negative", "ZeroTensor")
# PyTorch names what it must heed in a tensor by its dispatch keys. These change nothing about
# the elements, or are the lazy bits. Everything else is not plain, also what PyTorch adds later.
_PLAIN_KEYS = (
    "ADInplaceOrView",
    *(f"{kind}{device}" for kind in ("", "Autograd", "Autocast") for device in _DEVICES),
    *_LAZY_KEYS,
)


def _bits_of(keys: Any, names: tuple[str, ...]) -> int:
    for name in names:
        keys = keys.add(getattr(torch._C.DispatchKey, name))
    bits: int = keys.raw_repr()
    return bits


_keys_of = torch._C._dispatch_keys
_NO_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.Undefined)
_OTHER_BITS = ~_bits_of(_keys_of(torch.empty(0, device="cpu")), _PLAIN_KEYS)
_LAZY_BITS = _bits_of(_NO_KEYS, _LAZY_KEYS)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether its elements are in its memory, possibly behind lazy bits.

    Not plain: wrappers (DTensor, FakeTensor, masked and nested tensors, …), quantized and sparse
    tensors, those of torch.func, and those without memory (device "meta").
    """
    return not _keys_of(tensor).raw_repr() & _OTHER_BITS


def is_lazy(tensor: torch.Tensor) -> bool:
    """Whether its conjugate, negative or zero bit is set: its memory has other numbers."""
    return bool(_keys_of(tensor).raw_repr() & _LAZY_BITS)


# The keys of tensors that were found to be their memory, on the host.
_host_keys: set[int] = set()


def is_host_memory(tensor: torch.Tensor) -> bool:
    """Whether it is plain, not lazy, and in this host's memory: quickly, for every call asks."""
    keys = _keys_of(tensor).raw_repr()
    if keys in _host_keys:
        return True
    if keys & (_OTHER_BITS | _LAZY_BITS) or not tensor.is_cpu:
        return False
    _host_keys.add(keys)
    return True


def kind_of(tensor: torch.Tensor) -> str:
    """What a tensor that is not plain is called."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return type(tensor).__name__
    if tensor.is_nested:
        return "nested tensor"
    if tensor.layout is not torch.strided:
        return f"{str(tensor.layout).removeprefix('torch.')} tensor"
    return "quantized tensor" if tensor.is_quantized else "tensor of torch.func"


def ready(value: Any) -> Any:
    """The same, with results of functional collectives in place of the tensors that wait for
    them. `value` may be a tensor, anything else, or a list of these."""
    if type(value) is torch.Tensor:
        return value
    if isinstance(value, (list, tuple)):
        return [ready(item) for item in value]
    if isinstance(value, torch.Tensor) and hasattr(value, "trigger_wait"):
        return ready(value.trigger_wait())
    return value


def check(tensor: torch.Tensor) -> None:
    """Raise TypeError or ValueError if the tensor is not its memory."""
    if not is_plain(tensor):
        raise TypeError(
            f"the memory of a {kind_of(tensor)} is not its elements: pass a plain tensor "
            "(a DTensor's to_local(), for example, or a nested tensor's values())"
        )
    if is_lazy(tensor):
        raise ValueError(
            "the tensor's memory has other numbers, because its conjugate, negative or zero bit "
            "is set: pass tensor.resolve_conj().resolve_neg().clone()"
        )
