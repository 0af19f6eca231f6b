"""The collectives of a group, under the names and with the arguments that torch.distributed calls them by."""

from __future__ import annotations

import ctypes
import functools
import threading
from datetime import timedelta
from types import SimpleNamespace

import torch
import torch._C._distributed_c10d as _c10d
import torch.distributed as dist

from .. import _capi
from .devices import KINDS, Gpu, await_all, check_backend
from .on_gpu import OnGpu
from .operation import COMPLETE, Operation
from .profiling import shown
from .sparse import SparseSum
from .staging import Staging
from .tensors import CPU, Reduction, extent, movable, pointers_array, reduction, sizes_array

_NO_TIMEOUT = timedelta(0)
_compiled_code_may_wait = getattr(_c10d, "_allow_inflight_collective_as_graph_input", bool)  # bool(): False, in older torch


def _single(tensors) -> torch.Tensor:
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f"expected one tensor, got {len(tensors)}")
    return tensors[0]


def _list(tensors) -> list[torch.Tensor]:
    """[[tensor, ...]] or [tensor, ...], of one type."""
    if tensors and not isinstance(tensors[0], torch.Tensor):
        if len(tensors) != 1:
            raise ValueError(f"expected one list of tensors, got {len(tensors)}")
        tensors = tensors[0]
    return list(tensors)


def _options(given, **fields):
    """`given` if it is torch's options; else those of a program that calls the group itself, where `given` may be the reduction: the
    call is complete on return (asyncOp is no bool then), and its handle has a result."""
    if hasattr(given, "timeout"):
        return given
    fields = {name: value for name, value in fields.items() if value is not None}
    return SimpleNamespace(**{"asyncOp": None, "timeout": _NO_TIMEOUT, "rootRank": 0, "reduceOp": given or dist.ReduceOp.SUM, **fields})


def _same_type(*tensors: torch.Tensor) -> None:
    for tensor in tensors:
        if tensor.dtype is not tensors[0].dtype:
            raise TypeError(f"tensors of different types in one collective: {tensors[0].dtype} and {tensor.dtype}")


class Collectives:
    """For a group with `_lane`, `_rank`, `_size` and `_timeout`. Each method returns a Work; with asyncOp before it is complete.

    Errors that are found before anything is sent (a wrong type, size or layout) are a TypeError or ValueError on this rank.
    """

    # ---- Reductions ----

    def allreduce(self, tensors, opts=None, timeout=None, op=None):
        tensor = _single(tensors)
        opts = _options(op if opts is None else opts, timeout=timeout)
        if tensor.layout is torch.sparse_coo:
            return self._allreduce_sparse(tensor, opts)
        how = reduction(tensor.dtype, opts.reduceOp)
        staging = Staging()
        buffer = staging.both(tensor, how.wider)
        pointer, count = buffer.data_ptr(), buffer.numel() * how.width

        def call(stream, op):
            return _capi.horingAllReduce(pointer, pointer, count, how.dtype, op, self._lane.comm, stream)

        return self._submit("all_reduce", opts, staging, [tensor], call, how)

    def _allreduce_sparse(self, tensor, opts):
        total = SparseSum(tensor, opts.reduceOp, self._size, lambda: self._lane.comm)
        operation = Operation("all_reduce of a sparse tensor", total.call, [tensor], [tensor], total.before, total.after)
        return self._finish(operation, opts, self._lane)

    def allreduce_coalesced(self, tensors, opts=None):
        opts = _options(opts)
        staging, calls = Staging(), []
        for same in _by_type(tensors):
            how = reduction(same[0].dtype, opts.reduceOp)
            buffers = [staging.both(tensor, how.wider) for tensor in same]
            calls.append((how, pointers_array(buffers), sizes_array([buffer.numel() * how.width for buffer in buffers])))

        def call(stream):
            return _first_error(self._reduce(how, lambda op: _capi.horingAllReduceList(
                pointers, pointers, counts, len(counts), how.dtype, op, self._lane.comm, stream))
                for how, pointers, counts in calls)

        return self._submit("all_reduce_coalesced", opts, staging, list(tensors), call)

    def reduce(self, tensors, opts=None, op=None, timeout=None):
        tensor = _single(tensors)
        opts = _options(op, rootRank=opts, timeout=timeout) if isinstance(opts, int) else \
            _options(opts)
        how, root, staging = reduction(tensor.dtype, opts.reduceOp), opts.rootRank, Staging()
        buffer = staging.both(tensor, how.wider) if root == self._rank else staging.input(tensor, how.wider)
        pointer, count = buffer.data_ptr(), buffer.numel() * how.width

        def call(stream, op):
            return _capi.horingReduce(pointer, pointer, count, how.dtype, op, root, self._lane.comm, stream)

        return self._submit("reduce", opts, staging, [tensor], call, how)

    def reduce_scatter(self, output_tensors, input_tensors, opts=None, timeout=None, op=None):
        output, inputs = _single(output_tensors), self._one_each(_list(input_tensors), "input")
        opts = _options(op if opts is None else opts, timeout=timeout)
        _same_type(output, *inputs)
        self._check_size("output", output, inputs[self._rank].numel())
        how, staging = reduction(output.dtype, opts.reduceOp), Staging()
        buffer = staging.output(output, how.wider)
        blocks = staging.inputs(inputs, extent(buffer), how.wider)
        pointer = buffer.data_ptr()

        def call(stream, op):
            return _capi.horingReduceScatterV(blocks.base, blocks.counts, blocks.displacements, pointer, how.dtype, op,
                                              self._lane.comm, stream)

        return self._submit("reduce_scatter", opts, staging, [output], call, how)

    def reduce_scatter_single(self, output, input, opts=None):
        opts = _options(opts)
        _same_type(output, input)
        self._check_size("input", input, self._size * output.numel())
        how, staging = reduction(output.dtype, opts.reduceOp), Staging()
        source, target = staging.input(input, how.wider), staging.output(output, how.wider)
        sent, received, count = source.data_ptr(), target.data_ptr(), target.numel() * how.width

        def call(stream, op):
            return _capi.horingReduceScatter(sent, received, count, how.dtype, op, self._lane.comm, stream)

        return self._submit("reduce_scatter_single", opts, staging, [output], call, how)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        opts = _options(opts)
        staging, calls = Staging(), []
        for pairs in _by_type(zip(outputs, inputs)):
            how = reduction(pairs[0][0].dtype, opts.reduceOp)
            for output, input in pairs:
                _same_type(output, input)
                self._check_size("input", input, self._size * output.numel())
            sent = [staging.input(input, how.wider) for _, input in pairs]
            received = [staging.output(output, how.wider) for output, _ in pairs]
            calls.append((how, pointers_array(sent), pointers_array(received),
                          sizes_array([buffer.numel() * how.width for buffer in received])))

        def call(stream):
            return _first_error(self._reduce(how, lambda op: _capi.horingReduceScatterList(
                sent, received, counts, len(counts), how.dtype, op, self._lane.comm, stream))
                for how, sent, received, counts in calls)

        return self._submit("reduce_scatter_single_coalesced", opts, staging, list(outputs), call)

    # ---- Moves ----

    def broadcast(self, tensors, opts=None, timeout=None, root=None):
        tensor = _single(tensors)
        root = opts if isinstance(opts, int) else root
        opts = _options(None if isinstance(opts, int) else opts, rootRank=root, timeout=timeout)
        root, staging = opts.rootRank, Staging()
        buffer = staging.input(tensor) if root == self._rank else staging.output(tensor)
        pointer, (dtype, count) = buffer.data_ptr(), movable(buffer)

        def call(stream):
            return _capi.horingBroadcast(pointer, pointer, count, dtype, root, self._lane.comm, stream)

        return self._submit("broadcast", opts, staging, [tensor], call)

    def allgather(self, output_tensors, input_tensors, opts=None, timeout=None):
        return self._allgather(self._one_each(_list(output_tensors), "output"), _single(input_tensors),
                               _options(opts, timeout=timeout), output_tensors)

    def _allgather(self, outputs, input, opts, result):
        _same_type(input, *outputs)
        self._check_size("input", input, outputs[self._rank].numel())
        staging = Staging()
        source = staging.input(input)
        blocks = staging.outputs(outputs, extent(source), self._rank)
        pointer, (dtype, count) = source.data_ptr(), movable(source)

        def call(stream):
            return _capi.horingAllGatherV(pointer, count, blocks.base, blocks.counts, blocks.displacements, dtype,
                                          self._lane.comm, stream)

        return self._submit("all_gather", opts, staging, result, call)

    def allgather_coalesced(self, output_lists, input_list, opts=None):
        """`output_lists` has a list for each rank or, as Gloo's callers have it, for each input."""
        opts = _options(opts)
        inputs = list(input_list)
        by_rank = len(output_lists) == self._size and all(len(each) == len(inputs) for each in output_lists)
        by_input = len(output_lists) == len(inputs) and all(len(each) == self._size for each in output_lists)
        if not (by_rank or by_input):
            raise ValueError(f"expected a list of {len(inputs)} outputs for each of {self._size} ranks")
        work = COMPLETE
        for number, input in enumerate(inputs):
            outputs = [each[number] for each in output_lists] if by_rank else output_lists[number]
            work = self._allgather(list(outputs), input, opts, output_lists)
        return work

    def all_gather_single(self, output, input, opts=None):
        opts = _options(opts)
        _same_type(output, input)
        self._check_size("output", output, self._size * input.numel())
        staging = Staging()
        source, target = staging.input(input), staging.output(output)
        sent, received, (dtype, count) = source.data_ptr(), target.data_ptr(), movable(source)

        def call(stream):
            return _capi.horingAllGather(sent, received, count, dtype, self._lane.comm, stream)

        return self._submit("all_gather_single", opts, staging, [output], call)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        opts = _options(opts)
        staging, calls = Staging(), []
        for pairs in _by_type(zip(outputs, inputs)):
            for output, input in pairs:
                _same_type(output, input)
                self._check_size("output", output, self._size * input.numel())
            sent, received = [staging.input(each) for _, each in pairs], [staging.output(each) for each, _ in pairs]
            calls.append((movable(sent[0])[0], pointers_array(sent), pointers_array(received),
                          sizes_array([movable(buffer)[1] for buffer in sent])))

        def call(stream):
            return _first_error(_capi.horingAllGatherList(sent, received, counts, len(counts), dtype, self._lane.comm, stream)
                                for dtype, sent, received, counts in calls)

        return self._submit("all_gather_single_coalesced", opts, staging, list(outputs), call)

    def gather(self, output_tensors, input_tensors, opts=None, timeout=None):
        input = _single(input_tensors)
        root = opts if isinstance(opts, int) else None
        opts = _options(None if root is not None else opts, rootRank=root, timeout=timeout)
        root, staging, outputs, blocks = opts.rootRank, Staging(), [], None
        source = staging.input(input)
        if root == self._rank:
            outputs = self._one_each(_list(output_tensors), "output")
            _same_type(input, *outputs)
            self._check_size("input", input, outputs[root].numel())
            blocks = staging.outputs(outputs, extent(source), root)
        pointer, (dtype, count) = source.data_ptr(), movable(source)

        def call(stream):
            if blocks is None:
                return _capi.horingGatherV(pointer, count, None, None, None, dtype, root, self._lane.comm, stream)
            return _capi.horingGatherV(pointer, count, blocks.base, blocks.counts, blocks.displacements, dtype, root,
                                       self._lane.comm, stream)

        return self._submit("gather", opts, staging, outputs, call)

    def gather_single(self, output, input, opts=None):
        opts = _options(opts)
        root, staging, received, result = opts.rootRank, Staging(), None, []
        source = staging.input(input)
        if root == self._rank:
            _same_type(output, input)
            self._check_size("output", output, self._size * input.numel())
            received, result = staging.output(output).data_ptr(), [output]
        pointer, (dtype, count) = source.data_ptr(), movable(source)

        def call(stream):
            return _capi.horingGather(pointer, received, count, dtype, root, self._lane.comm, stream)

        return self._submit("gather_single", opts, staging, result, call)

    def scatter(self, output_tensors, input_tensors, opts=None, timeout=None):
        output = _single(output_tensors)
        root = opts if isinstance(opts, int) else None
        opts = _options(None if root is not None else opts, rootRank=root, timeout=timeout)
        root, staging, blocks = opts.rootRank, Staging(), None
        target = staging.output(output)
        if root == self._rank:
            inputs = self._one_each(_list(input_tensors), "input")
            _same_type(output, *inputs)
            self._check_size("output", output, inputs[root].numel())
            blocks = staging.inputs(inputs, extent(target))
        pointer, (dtype, count) = target.data_ptr(), movable(target)

        def call(stream):
            if blocks is None:
                return _capi.horingScatterV(None, None, None, pointer, count, dtype, root, self._lane.comm, stream)
            return _capi.horingScatterV(blocks.base, blocks.counts, blocks.displacements, pointer, count, dtype, root,
                                        self._lane.comm, stream)

        return self._submit("scatter", opts, staging, [output], call)

    def alltoall(self, output_tensors, input_tensors, opts=None, timeout=None):
        outputs, inputs = self._one_each(list(output_tensors), "output"), self._one_each(list(input_tensors), "input")
        opts = _options(opts, timeout=timeout)
        _same_type(*outputs, *inputs)
        staging = Staging()
        staging.tensors += inputs + outputs
        return self._exchange("all_to_all", opts, staging, outputs, inputs, outputs)

    def all_to_all_single(self, output, input, output_split_sizes=(), input_split_sizes=(), opts=None, timeout=None):
        opts = _options(opts, timeout=timeout)
        _same_type(output, input)
        staging = Staging()
        source, target = staging.input(input), staging.output(output)
        if not output_split_sizes and not input_split_sizes:
            return self._exchange_evenly(opts, staging, output, source, target)
        return self._exchange("all_to_all_single", opts, staging, [output], self._split(source, input_split_sizes, "input"),
                              self._split(target, output_split_sizes, "output"))

    def _exchange_evenly(self, opts, staging, output, source, target):
        self._check_size("input", source, target.numel())
        for tensor in (source, target):
            if tensor.dim() and tensor.size(0) % self._size:
                raise ValueError(f"{tensor.size(0)} rows, which {self._size} ranks cannot share evenly: pass split sizes")
        sent, received, (dtype, count) = source.data_ptr(), target.data_ptr(), movable(source)

        def call(stream):
            return _capi.horingAlltoAll(sent, received, count // self._size, dtype, self._lane.comm, stream)

        return self._submit("all_to_all_single", opts, staging, [output], call)

    def _exchange(self, name, opts, staging, result, input_parts, output_parts):
        inputs, outputs = staging.exchanged(input_parts, output_parts)

        def call(stream):
            return _capi.horingAlltoAllV(inputs.base, inputs.counts, inputs.displacements, outputs.base, outputs.counts,
                                         outputs.displacements, inputs.dtype, self._lane.comm, stream)

        return self._submit(name, opts, staging, result, call)

    def _split(self, tensor, sizes, name) -> list[torch.Tensor]:
        """The tensor's parts for each rank, along its first dimension."""
        rows = tensor.size(0) if tensor.dim() else tensor.numel()
        if not sizes:
            if rows % self._size:
                raise ValueError(f"the {name} has {rows} rows, which {self._size} ranks cannot share evenly: pass split sizes")
            sizes = [rows // self._size] * self._size
        if len(sizes) != self._size or sum(sizes) != rows:
            raise ValueError(f"{name} split sizes {list(sizes)} for {rows} rows and {self._size} ranks: expected one for each rank, "
                             "which sum to the rows")
        return list(tensor.split(list(sizes)))

    def barrier(self, opts=None, timeout=None):
        """Returns when all ranks have made this call, and their work on the GPU before it is complete."""
        opts = _options(opts, timeout=timeout)
        token = torch.zeros(1, dtype=torch.uint8, device=CPU)

        def call(stream):
            return _capi.horingAllReduce(token.data_ptr(), token.data_ptr(), 1, _capi.DType.uint8, _capi.Op.MAX, self._lane.comm, stream)

        before = None
        if gpu := self._gpu_of_barrier(opts):
            marks = gpu.mark(), gpu.mark_own()
            before = functools.partial(await_all, marks, self._timeout)
        return self._finish(Operation("barrier", call, [], [], before), opts, self._lane)

    def _gpu_of_barrier(self, opts) -> Gpu | None:
        """Whose work is to be complete before the barrier: that of its options, else the one that the group uses."""
        device = getattr(opts, "device", None)
        if device is not None and device.type in KINDS and device.index is not None:
            return self._on_gpu(device).gpu
        return next((each.gpu for each in list(self._on_gpus.values())), None)

    # ---- Shared ----

    def _open_gpus(self) -> None:
        self._on_gpus: dict[torch.device, OnGpu] = {}
        self._on_gpus_lock = threading.Lock()

    def _submit(self, name, opts, staging, result, call, how: Reduction | None = None):
        if how is not None:
            call = self._reducing(call, how)
        tensors, lane = staging.tensors, self._lane
        if staging.device is not None:
            staging.check_devices()
            tensors, lane = tensors + staging.buffers, self._on_gpu(staging.device)
        return self._finish(Operation(name, call, tensors, result, staging.before, staging.after), opts, lane)

    def _on_gpu(self, device: torch.device) -> OnGpu:
        with self._on_gpus_lock:
            if device not in self._on_gpus:
                check_backend(self, device.type)
                self._on_gpus[device] = OnGpu(self._lane, device)
            return self._on_gpus[device]

    def _finish(self, operation: Operation, opts, lane):
        if opts.timeout > _NO_TIMEOUT:
            operation.timeout = opts.timeout.total_seconds()
        if getattr(opts, "asyncOp", True):  # torch 2.4 always waits for the handle itself, where its options lack this
            shown(lane.start, operation)
            work = lane.Handle(lane, operation)
            if _compiled_code_may_wait():
                work.register([tensor for tensor in operation.result if isinstance(tensor, torch.Tensor)])
            return self._handle(work)
        shown(lane.run, operation)
        if opts.asyncOp is False:
            return COMPLETE
        if not operation.complete and operation.event is None:
            operation.end(None)
        return lane.Handle(lane, operation)

    def _reducing(self, call, how: Reduction):
        return lambda stream: self._reduce(how, lambda op: call(stream, op))

    def _reduce(self, how: Reduction, call) -> int:
        """call(op) with the library's operation, made for this call if it has a factor."""
        if how.factor is None:
            return call(how.op)
        scalar, op, comm = how.scalar(), ctypes.c_int(), self._lane.comm
        code = _capi.horingRedOpCreatePreMulSum(op, scalar.data_ptr(), how.dtype, _capi.SCALAR_HOST_IMMEDIATE, comm)
        if code:
            return code
        try:
            return call(op.value)
        finally:
            _capi.horingRedOpDestroy(op.value, comm)

    def _one_each(self, tensors, name) -> list[torch.Tensor]:
        if len(tensors) != self._size:
            raise ValueError(f"{len(tensors)} {name} tensors for {self._size} ranks: expected one for each")
        return tensors

    def _check_size(self, name, tensor, expected) -> None:
        if tensor.numel() != expected:
            raise ValueError(f"the {name} tensor has {tensor.numel()} elements, expected {expected}")


def _by_type(entries) -> list[list]:
    """Tensors, or tuples that begin with one, in lists of one type, which all ranks order alike."""
    types: dict = {}
    for entry in entries:
        types.setdefault((entry if isinstance(entry, torch.Tensor) else entry[0]).dtype, []).append(entry)
    return list(types.values())


def _first_error(codes) -> int:
    return next((code for code in codes if code), 0)
