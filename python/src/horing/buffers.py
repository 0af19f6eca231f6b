"""Where the memory of a Python object is: address, elements, type, and whether it may be written.

Supported are the buffer protocol (bytearray, memoryview, array, mmap, ctypes, NumPy), tensors of PyTorch, DLPack,
``__cuda_array_interface__`` and ``__array_interface__``; none of these libraries is imported. Nothing is copied. A view
holds the object, and an object of the buffer protocol cannot be resized, until the view is dropped.
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, Optional

from . import _kinds
from ._kinds import Kind

__all__ = ["View", "view"]


class View:
    """Memory of an object. ``on_gpu`` says where it is; ``count`` is in elements of ``kind``."""

    __slots__ = ("address", "count", "kind", "writable", "on_gpu", "_held")

    def __init__(self, address: int, count: int, kind: Kind, writable: bool, on_gpu: bool, held: Any):
        self.address = address
        self.count = count
        self.kind = kind
        self.writable = writable
        self.on_gpu = on_gpu
        self._held = held

    @property
    def bytes(self) -> int:
        return self.count * self.kind.bytes

    def as_kind(self, kind: Kind) -> "View":
        if self.bytes % kind.bytes != 0:
            raise ValueError(f"a buffer of {self.bytes} bytes has no whole number of elements of {kind.name}")
        return View(self.address, self.bytes // kind.bytes, kind, self.writable, self.on_gpu, self._held)


def view(given: Any, dtype: Any = None) -> View:
    """The memory of `given`; `dtype` is the type of its elements if the object cannot express it (bfloat16 in a uint16 array).

    Raises TypeError for an object without supported memory, ValueError for one that is not contiguous.
    """
    found = (_readers.get(type(given)) or _find_reader(given))(given)
    return found if dtype is None else found.as_kind(_kinds.named(dtype))


# ---- The buffer protocol ----


class _PyBuffer(ctypes.Structure):
    """Py_buffer. Holds the object from get() until it is dropped."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]

    def __del__(self, release=ctypes.pythonapi.PyBuffer_Release):
        if self.obj:
            release(self)


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer  # the object may raise anything
_get_buffer.argtypes, _get_buffer.restype = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int), ctypes.c_int
ctypes.pythonapi.PyBuffer_Release.argtypes = (ctypes.POINTER(_PyBuffer),)
ctypes.pythonapi.PyBuffer_Release.restype = None
_FORMAT, _C_CONTIGUOUS, _STRIDES, _INDIRECT = 0x4, 0x20 | 0x10 | 0x8, 0x10 | 0x8, 0x100 | 0x10 | 0x8

_kind_of_format: Dict[tuple, Kind] = {}


def _read_buffer(given: Any) -> View:
    got = _PyBuffer()
    try:
        _get_buffer(given, got, _FORMAT | _C_CONTIGUOUS)
    except (BufferError, ValueError) as error:
        return _read_what_has_no_buffer(given, error)
    size = got.itemsize
    key = got.format, size
    kind = _kind_of_format.get(key)
    if kind is None:
        letters = got.format.decode() if got.format else None
        kind = _kind_of_format[key] = _kinds.of_struct(letters, size)
    return View(got.buf or 0, got.len // size if size else 0, kind, not got.readonly, False, got)


def _read_what_has_no_buffer(given: Any, error: Exception) -> View:
    """NumPy's arrays of types that the buffer protocol cannot express, such as ml_dtypes; else the reason."""
    try:
        _get_buffer(given, _PyBuffer(), _FORMAT | _INDIRECT)
    except (BufferError, ValueError):
        if hasattr(given, "__array_interface__"):
            return _read_array_interface(given)
        raise
    raise ValueError(f"a {type(given).__name__} that is not contiguous cannot be sent or received: {error}") from None


# ---- Array interfaces ----


def _read_interface(given: Any, interface: dict, on_gpu: bool) -> View:
    kind = _kinds.of_interface(interface["typestr"])
    if kind.dtype is None:  # bfloat16 and float8 are plain bytes there
        name = getattr(getattr(given, "dtype", None), "name", None)
        kind = _kinds.of_name(name, kind.bytes) if name else kind
    count = 1
    for extent in interface["shape"]:
        count *= extent
    strides = interface.get("strides")
    if strides is not None and not _is_contiguous(interface["shape"], strides, kind.bytes):
        raise ValueError(f"a {type(given).__name__} that is not contiguous cannot be sent or received")
    address, read_only = interface["data"] or (0, False)
    return View(address or 0, count, kind, not read_only, on_gpu, given)


def _is_contiguous(shape, strides, step: int) -> bool:
    if 0 in shape:
        return True
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def _read_array_interface(given: Any) -> View:
    return _read_interface(given, given.__array_interface__, False)


def _read_cuda_array_interface(given: Any) -> View:
    return _read_interface(given, given.__cuda_array_interface__, True)


# ---- Tensors of PyTorch, by name: their DLPack refuses tensors that require a gradient ----

_kind_of_torch: Dict[Any, Kind] = {}


def _read_tensor(given: Any) -> View:
    if not given.is_contiguous():
        raise ValueError("a tensor that is not contiguous cannot be sent or received: call contiguous()")
    where = given.device.type
    if where not in ("cpu", "cuda"):
        raise TypeError(f"a tensor on {given.device} cannot be sent or received: expected one on cpu or cuda")
    if given.is_conj() or given.is_neg():
        raise ValueError("a tensor whose conjugate or negative is still to be taken: call resolve_conj() or resolve_neg()")
    kind = _kind_of_torch.get(given.dtype)
    if kind is None:
        kind = _kinds.of_name(str(given.dtype).rsplit(".", 1)[-1], given.element_size())
        _kind_of_torch[given.dtype] = kind
    return View(given.data_ptr(), given.numel(), kind, True, where == "cuda", given)


# ---- DLPack ----


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _DLVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.argtypes, _capsule_name.restype = (ctypes.py_object,), ctypes.c_char_p
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes, _capsule_pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p

_ON_HOST, _ON_GPU, _PINNED, _MANAGED = 1, 2, 3, 13
_READ_ONLY = 1


def _dlpack_capsule(given: Any, where: int) -> Any:
    # -1: a caller that passes a stream orders it after the work that fills the buffer, so the producer need not wait.
    stream = {"stream": -1} if where in (_ON_GPU, _MANAGED) else {}
    try:
        return given.__dlpack__(max_version=(1, 0), **stream)
    except TypeError:  # a producer of DLPack before 1.0
        return given.__dlpack__(**stream)


def _read_dlpack(given: Any) -> View:
    """Borrows: the capsule stays unconsumed, and gives the memory back when it is dropped."""
    where = given.__dlpack_device__()[0]
    if where not in (_ON_HOST, _ON_GPU, _PINNED, _MANAGED):
        raise TypeError(f"a {type(given).__name__} on DLPack device {where} cannot be sent or received")
    capsule = _dlpack_capsule(given, where)
    name = _capsule_name(capsule)
    pointer = _capsule_pointer(capsule, name)
    if name == b"dltensor_versioned":
        versioned = _DLVersioned.from_address(pointer)
        tensor, read_only = versioned.tensor, bool(versioned.flags & _READ_ONLY)
    else:
        tensor, read_only = _DLTensor.from_address(pointer), False
    kind = _kinds.of_dlpack(tensor.code, tensor.bits, tensor.lanes)
    shape = tensor.shape[:tensor.ndim] if tensor.ndim else []
    if tensor.strides and not _is_contiguous(shape, tensor.strides[:tensor.ndim], 1):
        raise ValueError(f"a {type(given).__name__} that is not contiguous cannot be sent or received")
    count = 1
    for extent in shape:
        count *= extent
    address = (tensor.data or 0) + tensor.byte_offset
    return View(address, count, kind, not read_only, where in (_ON_GPU, _MANAGED), capsule)


# ---- Which of these an object speaks, found once for each type ----

_readers: Dict[type, Callable[[Any], View]] = {}


def _speaks_buffer(given: Any) -> bool:
    try:
        memoryview(given)
    except TypeError:
        return False
    except (BufferError, ValueError):  # this object does not, though its type does
        pass
    return True


def _reader_for(given: Any) -> Optional[Callable[[Any], View]]:
    if hasattr(given, "data_ptr") and hasattr(given, "is_contiguous") and hasattr(given, "element_size"):
        return _read_tensor
    if _speaks_buffer(given):
        return _read_buffer
    if hasattr(given, "__cuda_array_interface__"):
        return _read_cuda_array_interface
    if hasattr(given, "__dlpack__") and hasattr(given, "__dlpack_device__"):
        return _read_dlpack
    if hasattr(given, "__array_interface__"):
        return _read_array_interface
    return None


def _find_reader(given: Any) -> Callable[[Any], View]:
    reader = _reader_for(given)
    if reader is None:
        raise TypeError(f"a {type(given).__name__} has no memory that can be sent or received: expected the buffer protocol, "
                        "DLPack, or an array interface (a NumPy array, a tensor, a bytearray)")
    _readers[type(given)] = reader
    return reader
