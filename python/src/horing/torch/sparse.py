"""All-reduce of sparse tensors (of embeddings, for instance): every rank gets the entries of all, and adds up those that meet."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

from .. import _capi
from .tensors import CPU, movable, sizes_array


class SparseSum:
    """One all-reduce of a sparse COO tensor, whose three steps are those of an Operation. `comm()` is the communicator."""

    def __init__(self, tensor: torch.Tensor, reduce_op, size: int, comm: Callable[[], int]):
        if reduce_op != dist.ReduceOp.SUM:
            raise TypeError("horing reduces sparse tensors by SUM only")
        if not tensor.is_cpu:
            raise TypeError(f"horing reduces sparse tensors on the CPU, not on {tensor.device}")
        self._tensor, self._size, self._comm = tensor, size, comm
        self._counts = torch.zeros(size, dtype=torch.int64, device=CPU)

    def before(self) -> None:
        own = self._tensor.detach().coalesce()
        self._rows = own.indices().t().contiguous()  # a row for each entry, so that ranks' rows follow each other
        self._values = own.values().contiguous()

    def call(self, _stream) -> int:
        count = torch.tensor([len(self._values)], device=CPU)
        code = _capi.horingAllGather(count.data_ptr(), self._counts.data_ptr(), 1, _capi.DType.int64, self._comm(), None)
        if code:
            return code
        self._rows, code = self._gather(self._rows)
        if not code:
            self._values, code = self._gather(self._values)
        return code

    def after(self) -> None:
        total = torch.sparse_coo_tensor(self._rows.t(), self._values, self._tensor.shape, device=CPU).coalesce()
        with torch.no_grad():
            self._tensor.copy_(total)

    def _gather(self, own: torch.Tensor) -> tuple[torch.Tensor, int]:
        everyone = own.new_empty((int(self._counts.sum()), *own.shape[1:]))
        dtype, whole = movable(everyone)
        width = whole // max(1, len(everyone))
        counts = [int(count) * width for count in self._counts]
        starts = [sum(counts[:rank]) for rank in range(self._size)]
        return everyone, _capi.horingAllGatherV(own.data_ptr(), movable(own)[1], everyone.data_ptr(), sizes_array(counts),
                                                sizes_array(starts), dtype, self._comm(), None)
