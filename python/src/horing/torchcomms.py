"""The torchcomms backend ``horing``.

Importing this module registers it::

    import horing.torchcomms
    comm = torchcomms.new_comm("horing", torch.device("cpu"), "main")

Where the package is installed, no import is needed: torchcomms finds the backend by its entry point.
"""

from __future__ import annotations

import os
from datetime import timedelta
from types import SimpleNamespace

import torch
import torch.distributed as dist
import torchcomms

from .torch.failures import failure
from .torch.process_group import ProcessGroupHoring

__all__ = ["TorchCommHoring"]

if not hasattr(torchcomms, "register_backend"):
    raise ImportError("horing.torchcomms needs torchcomms 0.3 or newer, the first that takes backends written in Python")

_ARGUMENT = 4
_NO_TIMEOUT = timedelta(0)
_REDUCTIONS = {getattr(torchcomms.RedOpType, name): getattr(dist.ReduceOp, name)
               for name in ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG")}
# The variables that torchcomms' own backends read a process's rank and the number of ranks from, in their order.
_PLACES = (("TORCHCOMM_RANK", "TORCHCOMM_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"),
           ("RANK", "WORLD_SIZE"))


class TorchCommHoring(torchcomms.TorchCommBackend):
    """A communicator of torchcomms, which is a group of `horing.torch` under other names.

    torchcomms makes it and calls `init`. A collective returns None when it is complete, or with `async_op` its handle, whose `wait()`
    raises its error. Any thread may use it. Hints have no effect.
    """

    def __init__(self):
        super().__init__()
        self._group: ProcessGroupHoring | None = None
        self._name = ""

    def init(self, device: torch.device, name: str, options: torchcomms.CommOptions) -> None:
        """Collective over the ranks of the job, which meet through `options.store` or the store at MASTER_ADDR and MASTER_PORT."""
        if torch.device(device).type != "cpu":
            raise RuntimeError(f"horing has no torchcomms backend for {device}: it serves tensors on the CPU")
        rank, size = _place()
        store = _job_store(rank, size, options.timeout) if options.store is None else options.store
        self._serve(ProcessGroupHoring(dist.PrefixStore(f"torchcomms/{name}", store), rank, size, options.timeout), name)

    def _serve(self, group: ProcessGroupHoring, name: str) -> None:
        group.setGroupName(name)
        self._group, self._name = group, name

    def finalize(self) -> None:
        """Waits for started operations, then releases the connections. Later calls raise an error."""
        self._group.shutdown()

    # ---- Names and numbers ----

    def get_rank(self) -> int:
        return self._group.rank()

    def get_size(self) -> int:
        return self._group.size()

    def get_backend_name(self) -> str:
        return "horing"

    def get_comm_name(self) -> str:
        return self._name

    def set_timeout(self, timeout: timedelta) -> None:
        """For operations that begin later."""
        self._group.set_timeout(timeout)

    # ---- Messages ----

    def send(self, tensor, dst, async_op):
        return _finish(self._group.send([tensor], dst), async_op)

    def recv(self, tensor, src, async_op):
        return _finish(self._group.recv([tensor], src), async_op)

    # ---- Reductions ----

    def all_reduce(self, tensor, op, async_op):
        return _start(async_op, self._group.allreduce, [tensor], op=op)

    def reduce(self, tensor, root, op, async_op):
        return _start(async_op, self._group.reduce, [tensor], root=root, op=op)

    def reduce_scatter(self, output, input_list, op, async_op):
        return _start(async_op, self._group.reduce_scatter, [output], [input_list], op=op)

    reduce_scatter_v = reduce_scatter

    def reduce_scatter_single(self, output, input, op, async_op):
        return _start(async_op, self._group.reduce_scatter_single, output, input, op=op)

    # ---- Moves ----

    def broadcast(self, tensor, root, async_op):
        return _start(async_op, self._group.broadcast, [tensor], root=root)

    def all_gather(self, tensor_list, tensor, async_op):
        return _start(async_op, self._group.allgather, [tensor_list], [tensor])

    all_gather_v = all_gather

    def all_gather_single(self, output, input, async_op):
        return _start(async_op, self._group.all_gather_single, output, input)

    def gather(self, output_tensor_list, input_tensor, root, async_op):
        return _start(async_op, self._group.gather, [output_tensor_list], [input_tensor], root=root)

    def scatter(self, output_tensor, input_tensor_list, root, async_op):
        return _start(async_op, self._group.scatter, [output_tensor], [input_tensor_list], root=root)

    def all_to_all(self, output_tensor_list, input_tensor_list, async_op):
        return _start(async_op, self._group.alltoall, output_tensor_list, input_tensor_list)

    def all_to_all_single(self, output, input, async_op):
        return self.all_to_all_v_single(output, input, (), (), async_op)

    def all_to_all_v_single(self, output, input, output_split_sizes, input_split_sizes, async_op):
        return _start(async_op, self._group.all_to_all_single, output, input, output_split_sizes, input_split_sizes)

    def barrier(self, async_op):
        return _start(async_op, self._group.barrier)

    # ---- Other communicators ----

    def split(self, ranks: list[int], name: str, options: torchcomms.CommOptions) -> TorchCommHoring | None:
        """A communicator of these ranks, in their order; None for an empty list. Every rank of this communicator calls it, the ranks of
        one new communicator with the same list."""
        size, rank = self.get_size(), self.get_rank()
        if any(not 0 <= each < size for each in ranks) or len(set(ranks)) != len(ranks) or (ranks and rank not in ranks):
            raise failure(_ARGUMENT, f"split {name} of {self._name} on rank {rank}: the ranks are {ranks}; expected different ones from "
                          f"0 to {size - 1}, {rank} among them, or none")
        group = self._group.split_group(ranks, options.timeout, group_name=name)
        if group is None:
            return None
        part = TorchCommHoring()
        part._serve(group, name)
        return part


def _start(async_op: bool, collective, *tensors, root: int = 0, op=None):
    options = SimpleNamespace(asyncOp=async_op, timeout=_NO_TIMEOUT, rootRank=root, reduceOp=None if op is None else _reduction(op))
    return _finish(collective(*tensors, opts=options), async_op)


def _finish(work: dist.Work, async_op: bool) -> dist.Work | None:
    if async_op:
        return work
    work.wait()
    return None


def _reduction(op: torchcomms.ReduceOp):
    if op.type not in _REDUCTIONS:  # PREMUL_SUM
        raise TypeError(f"torchcomms does not pass the factor of {op.type.name} to a backend written in Python: multiply, then use SUM")
    return _REDUCTIONS[op.type]


def _place() -> tuple[int, int]:
    """This process's rank and the number of ranks, which torchcomms does not tell a backend."""
    for rank, size in _PLACES:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    raise RuntimeError("this process does not know its rank: start it with torchrun, horing-run or mpirun, or set TORCHCOMM_RANK and "
                       "TORCHCOMM_SIZE")


_found_store: dist.Store | None = None


def _job_store(rank: int, size: int, timeout: timedelta) -> dist.Store:
    """The store at MASTER_ADDR and MASTER_PORT. One for the life of the process: rank 0 serves it, and other ranks may be slower."""
    global _found_store
    if _found_store is None:
        _found_store = next(dist.rendezvous("env://", rank, size, timeout=timeout))[0]
    return _found_store


torchcomms.register_backend("horing", TorchCommHoring)
