"""What the library can do with a tensor: its data type, its layout, its blocks."""

from __future__ import annotations

import ctypes

import torch
import torch.distributed as dist

from .._capi import DType, Op
from .devices import KINDS

CPU = torch.device("cpu")  # of buffers: named, since a program may have another default
_RedOp = dist.ReduceOp.RedOpType


def _by_name(table: dict) -> dict:
    """Of the types that this torch has."""
    return {getattr(torch, name): value for name, value in table.items() if hasattr(torch, name)}


# The library's own types.
_NATIVE = _by_name({
    "int8": DType.int8, "uint8": DType.uint8, "int32": DType.int32, "uint32": DType.uint32, "int64": DType.int64,
    "uint64": DType.uint64, "float16": DType.float16, "float32": DType.float32, "float64": DType.float64,
    "bfloat16": DType.bfloat16, "float8_e4m3fn": DType.float8_e4m3, "float8_e5m2": DType.float8_e5m2,
})
# Complex numbers, as pairs of reals.
_PAIRS = _by_name({"complex32": DType.float16, "complex64": DType.float32, "complex128": DType.float64})
# Types that are computed in a wider one.
_WIDER = _by_name({"int16": torch.int32, "uint16": torch.int32, "float8_e4m3fnuz": torch.float32,
                   "float8_e5m2fnuz": torch.float32})
_OPERATIONS = {_RedOp.SUM: Op.SUM, _RedOp.PRODUCT: Op.PROD, _RedOp.MAX: Op.MAX, _RedOp.MIN: Op.MIN, _RedOp.AVG: Op.AVG,
               _RedOp.BAND: Op.BAND, _RedOp.BOR: Op.BOR, _RedOp.BXOR: Op.BXOR, _RedOp.PREMUL_SUM: None}
_BITWISE = (_RedOp.BAND, _RedOp.BOR, _RedOp.BXOR)
# Truth values are bytes of 0 and 1, and stay so.
_TRUTH = {_RedOp.SUM: Op.MAX, _RedOp.MAX: Op.MAX, _RedOp.BOR: Op.MAX, _RedOp.PRODUCT: Op.MIN, _RedOp.MIN: Op.MIN,
          _RedOp.BAND: Op.MIN, _RedOp.BXOR: Op.BXOR}


def movable(tensor: torch.Tensor) -> tuple[int, int]:
    """The library's type and count for moving the tensor's bits. Any type."""
    dtype = tensor.dtype
    if (native := _NATIVE.get(dtype)) is not None:
        return native, tensor.numel()
    if (pair := _PAIRS.get(dtype)) is not None:
        return pair, 2 * tensor.numel()
    return DType.uint8, tensor.numel() * tensor.element_size()


class Reduction:
    """How the library reduces tensors of a type.

    `dtype` and `op` are the library's; a tensor element has `width` of them, after conversion to the torch type `wider` if there
    is one. `factor` is that of PREMUL_SUM, for which `op` is None.
    """

    __slots__ = ("dtype", "op", "width", "wider", "factor", "factor_dtype")

    def __init__(self, dtype: torch.dtype, reduce_op):
        kind = getattr(reduce_op, "op", reduce_op)
        self.wider, self.width, self.factor = _WIDER.get(dtype), 1, None
        computed = self.factor_dtype = self.wider or dtype
        if kind not in _OPERATIONS:
            raise TypeError(f"horing has no reduction {kind}")
        if dtype is torch.bool:
            self.dtype, self.op = DType.uint8, _TRUTH.get(kind)
        elif dtype in _PAIRS:
            self.dtype, self.width, self.factor_dtype = _PAIRS[dtype], 2, dtype.to_real()
            self.op = _OPERATIONS[kind] if kind in (_RedOp.SUM, _RedOp.AVG) else None
        elif computed in _NATIVE:
            self.dtype, self.op = _NATIVE[computed], _OPERATIONS[kind]
            if kind in _BITWISE and dtype.is_floating_point:
                self.op = None
        else:
            raise TypeError(f"horing moves tensors of {dtype}, but has no reduction of them")
        if kind == _RedOp.PREMUL_SUM and dtype is not torch.bool:
            self.factor = reduce_op.factor if hasattr(reduce_op, "factor") else reduce_op.__getstate__()[1]
        elif self.op is None:
            raise TypeError(f"horing has no reduction {_name(kind)} of {dtype}")

    def scalar(self) -> torch.Tensor:
        """The factor of PREMUL_SUM as one element of the type that is computed in."""
        return torch.as_tensor(self.factor, device="cpu").reshape(-1)[:1].to(self.factor_dtype)


def _name(kind) -> str:
    return str(kind).rpartition(".")[2]


_reductions: dict[tuple, Reduction] = {}


def reduction(dtype: torch.dtype, reduce_op) -> Reduction:
    """How to reduce; raises a TypeError that names the type and the operation if the library cannot."""
    kind = getattr(reduce_op, "op", reduce_op)
    if kind == _RedOp.PREMUL_SUM:
        return Reduction(dtype, reduce_op)
    found = _reductions.get((dtype, kind))
    if found is None:
        found = _reductions[dtype, kind] = Reduction(dtype, reduce_op)
    return found


def check_input(tensor: torch.Tensor) -> bool:
    """Whether it is on a GPU."""
    is_on_gpu = not tensor.is_cpu
    if (is_on_gpu and tensor.device.type not in KINDS) or tensor.layout is not torch.strided:
        raise TypeError(f"horing moves dense tensors on {', '.join(['cpu', *KINDS])}, not {tensor.layout} on {tensor.device}")
    if type(tensor) is not torch.Tensor and not tensor.data_ptr() and tensor.numel():
        raise TypeError(f"horing moves tensors that have memory; this {type(tensor).__name__} has none: pass the tensors that it wraps")
    return is_on_gpu


def check_output(tensor: torch.Tensor) -> bool:
    """Also that no two elements are the same memory."""
    is_on_gpu = check_input(tensor)
    if not tensor.is_contiguous() and torch._debug_has_internal_overlap(tensor) == 1:
        raise ValueError("an output tensor has elements that share memory (it was expanded): pass a clone")
    return is_on_gpu


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the memory holds the tensor's elements in order, as they are."""
    return tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy whose memory holds its elements in order."""
    return tensor if is_plain(tensor) else tensor.detach().resolve_conj().resolve_neg().contiguous()


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    begin = tensor.data_ptr()
    return begin, begin + tensor.numel() * tensor.element_size()


def are_in_one_storage(tensors: list[torch.Tensor]) -> bool:
    return len({tensor.untyped_storage().data_ptr() for tensor in tensors}) <= 1


class Blocks:
    """Plain tensors of one type, one for each rank, as the library takes blocks: elements of one buffer.

    `usable`: they do not overlap, and their distances are whole elements.
    """

    __slots__ = ("base", "end", "dtype", "counts", "displacements", "usable")

    def __init__(self, tensors: list[torch.Tensor]):
        self.dtype = movable(tensors[0])[0]
        moved = [movable(tensor)[1] for tensor in tensors]
        begins = [tensor.data_ptr() for tensor in tensors]
        sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
        filled = sorted((begin, size) for begin, size in zip(begins, sizes) if size)
        self.base = filled[0][0] if filled else 0
        self.end = filled[-1][0] + filled[-1][1] if filled else 0
        item = next((size // count for size, count in zip(sizes, moved) if count), 1)
        self.usable = all(a + size <= b for (a, size), (b, _) in zip(filled, filled[1:])) and \
            all((begin - self.base) % item == 0 for begin, _ in filled)
        self.counts = sizes_array(moved)
        self.displacements = sizes_array([(begin - self.base) // item if size else 0 for begin, size in zip(begins, sizes)])


def sizes_array(numbers):
    return (ctypes.c_size_t * len(numbers))(*numbers)


def pointers_array(tensors):
    return (ctypes.c_void_p * len(tensors))(*[tensor.data_ptr() for tensor in tensors])
