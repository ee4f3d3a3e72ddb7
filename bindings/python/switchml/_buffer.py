# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of any kind as C needs them: an address, a count, a type. Never makes a copy.

Accepts NumPy arrays, objects that support DLPack and are in this host's memory (torch, jax,
tensorflow), and objects with the buffer protocol. NumPy gets bfloat16 from ml_dtypes; DLPack
has its own bfloat16.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from . import _library as c


class SupportsDLPack(Protocol):
    """An array of a framework: PyTorch's, JAX's or TensorFlow's, for example."""

    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, int]: ...


class SupportsBuffer(Protocol):
    """An array.array, a memoryview, or what else has the buffer protocol."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


Array: TypeAlias = np.ndarray | np.generic | SupportsDLPack | SupportsBuffer

# Bytes have no arithmetic.
OF_NAME = {name.lower(): n for name, n in c.enumeration("sml_type").items() if n != c.BYTE}


def check_type(name: str) -> None:
    """Raise TypeError if elements of this type cannot be combined."""
    if name not in OF_NAME:
        raise TypeError(
            f"{name} cannot be combined by the switch, only " + ", ".join(OF_NAME) + " can"
        )


class Buffer(NamedTuple):
    """Elements in memory; `owner` keeps the memory alive."""

    address: int
    count: int
    itemsize: int
    type_name: str
    shape: tuple[int, ...]
    owner: Any

    @property
    def nbytes(self) -> int:
        return self.count * self.itemsize

    def number_type(self) -> int:
        """The C library's type for elements that are combined."""
        check_type(self.type_name)
        return OF_NAME[self.type_name]

    def moved(self, text: str) -> tuple[int, int, bytes | None]:
        """(type, count, title) for elements that are only moved, of any type.

        `text`: what all ranks must agree on besides. The title names a type that C does not know.
        """
        if self.type_name in OF_NAME:
            return OF_NAME[self.type_name], self.count, None
        return c.BYTE, self.nbytes, f"{text} of {self.count} {self.type_name}".encode()


def buffer_of(array: Array, *, writable: bool = False) -> Buffer:
    """The memory of `array`. Raises TypeError or ValueError if C cannot use it."""
    array = whole(array)
    if isinstance(array, np.ndarray):
        return _of_numpy(array, writable)
    if isinstance(array, np.generic):
        if writable:
            raise ValueError("a NumPy scalar cannot be written; an array of shape () can")
        return _of_numpy(np.asarray(array), writable)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array, writable)
    try:
        view = memoryview(array)
    except TypeError:
        raise TypeError(
            f"{type(array).__name__} is not an array: expected a NumPy array, or an "
            "object with DLPack or the buffer protocol"
        ) from None
    return _of_numpy(np.asarray(view), writable)


# Subclasses of NumPy's arrays that keep nothing about their elements outside of them.
_WHOLE = (np.ndarray, np.memmap, np.matrix, np.recarray)


def whole(array: Any) -> Any:
    """The array, if its memory is all that belongs to its elements.

    Raises TypeError or ValueError if a mask, a unit, or a sign that is not in memory would be
    lost. Results of PyTorch's functional collectives become the tensors that they wait for.
    """
    if type(array) in _WHOLE:
        return array
    if isinstance(array, np.ndarray):
        _check_subclass(array)
    elif (torch := sys.modules.get("torch")) and isinstance(array, torch.Tensor):
        from . import _tensor_memory

        array = _tensor_memory.ready(array)
        if array.device.type != "cpu":
            raise ValueError(_NOT_HERE)
        _tensor_memory.check(array)
    return array


def _check_subclass(array: np.ndarray) -> None:
    name = type(array).__name__
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"the mask of a {name} would be lost: pass array.filled(value), or pass array.data "
            "and the mask in two calls"
        )
    slots = any(getattr(kind, "__slots__", ()) for kind in type(array).__mro__)
    if slots or getattr(array, "__dict__", None):
        raise TypeError(
            f"what a {name} has besides its elements would be lost: pass array.view(numpy.ndarray)"
        )


def _of_numpy(array: np.ndarray, writable: bool) -> Buffer:
    if not array.flags.c_contiguous:
        raise ValueError("the array is not contiguous; numpy.ascontiguousarray() makes a copy")
    if array.dtype.hasobject or not array.dtype.isnative:
        raise TypeError(
            f"arrays of {array.dtype} cannot be sent: use numbers in this host's byte order"
        )
    if writable and not array.flags.writeable:
        raise ValueError("the array is read-only, but must take the result: pass a copy, or out=")
    return Buffer(
        array.ctypes.data, array.size, array.itemsize, array.dtype.name, array.shape, array
    )


# ---- DLPack: its structures, because numpy.from_dlpack() does not support bfloat16 ----


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_CPU, _CUDA_HOST = 1, 3
_NOT_HERE = (
    "the array is not in this host's memory: copy it there (switchml.torch also takes CUDA tensors)"
)
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}

_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _of_dlpack(array: Any, writable: bool) -> Buffer:
    if writable and type(array).__module__.partition(".")[0] in ("jax", "jaxlib", "tensorflow"):
        raise ValueError(
            f"a {type(array).__name__} is immutable and cannot take the result: pass a NumPy array"
        )
    if getattr(array, "requires_grad", False):
        array = array.detach()
    device = array.__dlpack_device__()[0]
    if device not in (_CPU, _CUDA_HOST):
        raise ValueError(_NOT_HERE)
    capsule = array.__dlpack__()
    # Not renamed to "used_dltensor": the capsule frees the tensor when we release the
    # capsule.
    tensor = _DLTensor.from_address(_get_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if tensor.strides and not _is_contiguous(shape, tensor.strides):
        raise ValueError("the array is not contiguous: make a contiguous copy first")
    count = int(np.prod(shape, dtype=np.int64))
    itemsize = max(1, tensor.bits // 8) * tensor.lanes
    kind = _KINDS.get(tensor.code, "unknown")
    name = kind if kind == "bool" else kind + str(tensor.bits)
    address = (tensor.data or 0) + tensor.byte_offset
    return Buffer(address, count, itemsize, name, shape, (array, capsule))


def _is_contiguous(shape: tuple[int, ...], strides: Any) -> bool:
    expected = 1
    for i in range(len(shape) - 1, -1, -1):
        if shape[i] > 1 and strides[i] != expected:
            return 0 in shape
        expected *= shape[i]
    return True


def empty_like(array: Any, shape: tuple[int, ...]) -> Any:
    """A new array for a result: torch's if `array` is torch's, otherwise NumPy's."""
    if type(array).__module__.partition(".")[0] == "torch" or hasattr(array, "new_empty"):
        return array.new_empty(shape, requires_grad=False)
    if isinstance(array, (np.ndarray, np.generic)):
        return np.empty(shape, array.dtype)
    name = buffer_of(array).type_name
    if name == "bfloat16":
        import ml_dtypes

        return np.empty(shape, ml_dtypes.bfloat16)
    return np.empty(shape, name)
