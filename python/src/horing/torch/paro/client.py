"""The C client (horing/paro.h) through ctypes: signatures, structures, results as exceptions. Nothing else."""

from __future__ import annotations

import contextlib
import ctypes
import os
import weakref
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p
from typing import TYPE_CHECKING

import torch

from ... import _capi, _interrupt
from ..._at_exit import at_exit
from ..failures import failure

if TYPE_CHECKING:
    from .memory import Gpu, Host, Lease

WHOLE, BY_GROUP, BY_ALL = 0, 1, 2
PHASES = ("gather parameters", "reduce gradients", "synchronize gradients", "synchronize parameters")
COLLECTIVES = ("all-gather", "reduce-scatter", "all-reduce")
SCOPES = ("in groups", "between groups", "over all ranks")
STRATEGIES = range(14)


class StrategyInfo(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("alias", c_char_p), ("params", c_int), ("grads", c_int), ("state", c_int)]


class _Sized(ctypes.Structure):
    """A structure whose first field is its size, as its initialiser in C sets it."""

    def __init__(self, *values, **named):
        super().__init__(ctypes.sizeof(self), *values, **named)


class Model(_Sized):
    _fields_ = [("size", c_size_t), ("groups", c_int), ("ranksPerGroup", c_int), ("params", c_uint64), ("trainable", c_uint64),
                ("microSteps", c_int), ("wireBytes", c_int), ("stateBytes", c_int), ("gradBytes", c_int),
                ("groupSizes", POINTER(c_int)), ("group", c_int), ("localIndex", c_int), ("isBucket", c_int),
                ("reserved", c_int)]


class Operation(ctypes.Structure):
    _fields_ = [("phase", c_int), ("collective", c_int), ("scope", c_int), ("times", c_int), ("bytes", c_uint64),
                ("slowBytes", c_uint64), ("fastBytes", c_uint64)]


class Estimate(_Sized):
    _fields_ = [("size", c_size_t), ("memoryBytes", c_uint64), ("largestMemoryBytes", c_uint64), ("slowBytes", c_uint64), ("fastBytes", c_uint64),
                ("numOperations", c_int), ("operations", Operation * 5)]


class Rate(ctypes.Structure):
    _fields_ = [("latencySeconds", c_double), ("secondsPerByte", c_double)]


class Rates(ctypes.Structure):
    _fields_ = [("of", Rate * 3 * 3)]


class Param(ctypes.Structure):
    _fields_ = [("count", c_size_t), ("type", c_int), ("trainable", c_int)]


Allocate = ctypes.CFUNCTYPE(c_void_p, c_size_t, c_void_p)
Release = ctypes.CFUNCTYPE(None, c_void_p, c_size_t, c_void_p)


class Memory(_Sized):
    _fields_ = [("size", c_size_t), ("onGpu", c_int), ("stream", c_void_p), ("allocate", Allocate), ("release", Release), ("context", c_void_p)]


class Config(_Sized):
    _fields_ = [("size", c_size_t), ("strategy", c_int), ("memoryLimit", c_uint64), ("bucketBytes", c_size_t),
                ("average", c_int), ("stateValues", c_int), ("microSteps", c_int), ("units", POINTER(c_int)), ("gradsInFloat32", c_int),
                ("names", POINTER(c_char_p)), ("gatherType", c_int),
                ("gradBuffers", c_int), ("memory", POINTER(Memory))]


class Info(_Sized):
    _fields_ = [("size", c_size_t), ("strategy", c_int), ("groups", c_int), ("ranksPerGroup", c_int), ("numBuckets", c_int),
                ("params", c_uint64), ("trainable", c_uint64), ("memoryBytes", c_uint64), ("largestMemoryBytes", c_uint64)]


class Place(ctypes.Structure):
    _fields_ = [("bucket", c_int), ("offset", c_size_t), ("count", c_size_t)]


class Usage(_Sized):
    _fields_ = [("size", c_size_t), ("stateBytes", c_uint64), ("gradBufferBytes", c_uint64), ("gatheredBytes", c_uint64),
                ("slowBytes", c_uint64), ("fastBytes", c_uint64), ("snapshotBytes", c_uint64)]


class Shard(_Sized):
    _fields_ = [("size", c_size_t), ("first", c_size_t), ("count", c_size_t), ("gradType", c_int), ("grads", c_void_p), ("stateType", c_int),
                ("master", c_void_p), ("state", c_void_p * 4)]


_P, _BUCKET = c_void_p, (c_void_p, c_int)
_SIGNATURES = {
    "horingParoGetStrategy": (c_int, POINTER(POINTER(StrategyInfo))),
    "horingParoFindStrategy": (c_char_p, POINTER(c_int)),
    "horingParoGetEstimate": (c_int, POINTER(Model), POINTER(Estimate)),
    "horingParoMeasure": (_P, c_size_t, POINTER(Rates)),
    "horingParoGetSeconds": (POINTER(Estimate), c_int, POINTER(Rates), POINTER(c_double)),
    "horingParoCreate": (POINTER(_P), _P, POINTER(Config), POINTER(Param), c_size_t),
    "horingParoDestroy": (_P,),
    "horingParoGetInfo": (_P, POINTER(Info)),
    "horingParoGetPlace": (_P, c_size_t, POINTER(Place)),
    "horingParoGetUsage": (_P, POINTER(Usage)),
    "horingParoSetParam": (_P, c_size_t, _P, c_size_t, c_int),
    "horingParoGatherParams": _BUCKET,
    "horingParoGatherMasters": _BUCKET,
    "horingParoGetParam": (_P, c_size_t, POINTER(_P)),
    "horingParoReleaseParams": _BUCKET,
    "horingParoReduceGradsOf": (_P, c_int, POINTER(_P), c_size_t),
    "horingParoSyncGrads": (_P,),
    "horingParoGetShard": (_P, c_int, POINTER(Shard)),
    "horingParoGetMaster": (_P, c_int, POINTER(Shard)),
    "horingParoSyncParams": (_P,),
}
_functions = {name: _capi._bind(name, arguments) for name, arguments in _SIGNATURES.items()}
_last_error = _capi._bind("horingParoGetLastError", (), c_char_p)


def _check(code: int, comm: int | None = None) -> None:
    if code:
        raise failure(code, _last_error().decode(errors="replace"), _capi.failed_rank(comm))


def strategy_info(strategy: int) -> StrategyInfo:
    row = POINTER(StrategyInfo)()
    _check(_functions["horingParoGetStrategy"](strategy, row))
    return row.contents


def find_strategy(name: str) -> int:
    """Its number, by name or alias; -1 for "auto"."""
    number = c_int()
    _check(_functions["horingParoFindStrategy"](name.encode(), number))
    return number.value


def estimate(strategy: int, model: Model) -> Estimate:
    result = Estimate()
    _check(_functions["horingParoGetEstimate"](strategy, model, result))
    return result


def measure(lane, longest: int) -> Rates:
    """How long collectives take here. Collective, over the communicator of `lane`."""
    rates = Rates()
    code = _interrupt.run((lane,), _functions["horingParoMeasure"], lane.comm, longest, ctypes.byref(rates))
    _check(code, lane.comm)
    return rates


def seconds(result: Estimate, vectors: int, rates: Rates) -> float:
    answer = c_double()
    _check(_functions["horingParoGetSeconds"](result, vectors, rates, answer))
    return answer.value


class Client:
    """One rank's part of a sharded model. `lane` owns the communicator; the client's own `memory` is a Host or a Gpu (memory.py), and what it is
    given is there, too. Ends with its last reference."""

    def __init__(self, lane, memory: Host | Gpu, strategy: int, params: list[tuple[int, int, bool]], units: list[int], names: list[str],
                 bucket_bytes: int, grads_in_float32: bool, gather_type: int,
                 grad_buffers: int):
        self._lane, self.memory, self._handle, self._pid = lane, memory, _P(), os.getpid()
        array = (Param * len(params))(*(Param(count, dtype, trainable) for count, dtype, trainable in params))
        numbers = (c_int * len(units))(*units)
        texts = (c_char_p * len(names))(*(name.encode(errors="backslashreplace") for name in names))
        config = Config(strategy, 0, bucket_bytes, 1, 0, 1, numbers, grads_in_float32, texts, gather_type, grad_buffers,
                        memory.settings and ctypes.pointer(memory.settings))
        with memory.current():
            self._call("horingParoCreate", lane.comm, config, array, len(params), handle=ctypes.byref(self._handle))
        _open.add(self)

    def _call(self, name: str, *arguments, handle=None) -> None:
        """The call waits for other ranks, and is open to Ctrl-C meanwhile."""
        self.memory.follow()
        try:
            code = _interrupt.run((self._lane,), _functions[name], handle or self._handle, *arguments)
        finally:
            self.memory.lead()
        if code:
            _check(code, self._lane.comm)

    def _ask(self, name: str, answer, *arguments):
        self._call(name, *arguments, ctypes.byref(answer))
        return answer

    def info(self) -> Info:
        return self._ask("horingParoGetInfo", Info())

    def usage(self) -> Usage:
        return self._ask("horingParoGetUsage", Usage())

    def place(self, param: int) -> Place:
        return self._ask("horingParoGetPlace", Place(), param)

    def set_param(self, param: int, values: torch.Tensor, dtype: int) -> None:
        try:
            self._call("horingParoSetParam", param, values.data_ptr(), values.numel(), dtype)
        finally:
            self.memory.keep([values])

    def gather(self, bucket: int) -> None:
        self._call("horingParoGatherParams", bucket)

    def gather_masters(self, bucket: int) -> None:
        self._call("horingParoGatherMasters", bucket)

    def param(self, param: int) -> int:
        return self._ask("horingParoGetParam", _P(), param).value or 0

    def release(self, bucket: int) -> None:
        self._call("horingParoReleaseParams", bucket)

    def reduce_grads(self, bucket: int, grads: list[torch.Tensor | None]) -> None:
        addresses = [None if grad is None else grad.data_ptr() for grad in grads]
        try:
            self._call("horingParoReduceGradsOf", bucket, (_P * len(addresses))(*addresses), len(addresses))
        finally:
            self.memory.keep(grads)

    def sync_grads(self) -> None:
        self._call("horingParoSyncGrads")

    def shard(self, bucket: int) -> Shard:
        return self._ask("horingParoGetShard", Shard(), bucket)

    def master(self, bucket: int) -> Shard:
        return self._ask("horingParoGetMaster", Shard(), bucket)

    def sync_params(self) -> None:
        self._call("horingParoSyncParams")

    def lease(self, address: int, size: int) -> Lease:
        """Memory that it has given the address of."""
        return self.memory.lease(address, size, self)

    def close(self) -> None:
        """Waits for operations in progress, then releases the memory. Again, or in a forked child: no effect."""
        handle, self._handle = self._handle, None
        if handle and self._pid == os.getpid():
            try:
                self.memory.follow()
            finally:
                _functions["horingParoDestroy"](handle)

    __del__ = close


_open: weakref.WeakSet[Client] = weakref.WeakSet()


@at_exit  # before the groups end, whose communicators the clients use
def _close_all() -> None:
    for client in list(_open):
        with contextlib.suppress(RuntimeError):  # of a GPU that is lost: the others are closed
            client.close()
