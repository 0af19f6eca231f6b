"""The C API (horing/horing.h) through ctypes: signatures, numbers, and results as exceptions. Nothing else.

Pointers, handles and streams are plain ints (or None for NULL); arrays may be ctypes arrays. Every function returns its
result code; ``check`` turns that into an exception. A function that the loaded library does not have is None.
"""

from __future__ import annotations

import ctypes
import enum
import operator
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, Optional

from . import _library
from .errors import HoringError, InvalidArgumentError, class_of

SUCCESS = 0
IN_PROGRESS = 7
UNIQUE_ID_BYTES = 128
NO_COLOR = -1
ANY_RANK = -1
STREAM_ALL = 2**64 - 1
SHRINK_DEFAULT, SHRINK_ABORT = 0, 1
RANK_MAJOR, RAIL_MAJOR = 0, 1
SCALAR_DEVICE, SCALAR_HOST_IMMEDIATE = 0, 1
_LONGEST_TIMEOUT = 86400  # seconds


class DType(enum.IntEnum):
    """Element types. Half and quarter precision are accumulated in float32."""

    int8 = 0
    uint8 = 1
    int32 = 2
    uint32 = 3
    int64 = 4
    uint64 = 5
    float16 = 6
    float32 = 7
    float64 = 8
    bfloat16 = 9
    float8_e4m3 = 10
    float8_e5m2 = 11


ITEM_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)  # by DType


class Op(enum.IntEnum):
    """Reductions. Integers wrap around; min and max give NaN if any operand is NaN."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    AVG = 4
    BAND = 0x10000000
    BOR = 0x10000001
    BXOR = 0x10000002


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_ubyte * UNIQUE_ID_BYTES)]


class Config(ctypes.Structure):
    """The first fields of horingConfig_t, which are NCCL's and never change; the library treats the missing ones as undefined."""

    _fields_ = [("size", c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint), ("blocking", c_int),
                ("cgaClusterSize", c_int), ("minCTAs", c_int), ("maxCTAs", c_int), ("netName", c_char_p),
                ("splitShare", c_int), ("trafficClass", c_int), ("commName", c_char_p)]


class Options(ctypes.Structure):
    """horingOptions_t."""

    _fields_ = [("size", c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint), ("timeoutMs", c_int),
                ("initTimeoutMs", c_int), ("reproducible", c_int), ("gpuKernels", c_int)]


class CallOptions(ctypes.Structure):
    """horingCallOptions_t."""

    _fields_ = [("size", c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint), ("timeoutMs", c_int),
                ("algorithm", ctypes.c_char * 64)]


def make_options(timeout: Optional[float] = None, init_timeout: Optional[float] = None,
                 reproducible: Optional[bool] = None) -> Options:
    undefined = -2**31
    return Options(ctypes.sizeof(Options), 0xcafebeef, version(), undefined if timeout is None else milliseconds(timeout),
                   undefined if init_timeout is None else milliseconds(init_timeout),
                   undefined if reproducible is None else int(reproducible), undefined)


def milliseconds(seconds: float) -> int:
    if not 0 < seconds <= _LONGEST_TIMEOUT:
        raise ValueError(f"a timeout is {seconds} s: expected more than 0, at most {_LONGEST_TIMEOUT}")
    return max(1, round(1000 * seconds))


def whole(what: str, given: Any, low: int = -2**31, high: int = 2**31) -> int:
    """`given` as an int from `low` to below `high`: ctypes would truncate a larger one."""
    try:
        number = operator.index(given)
    except TypeError:
        raise TypeError(f"{what} is {given!r}: expected an int") from None
    if not low <= number < high:
        raise InvalidArgumentError(f"{what} is {number}: expected {low} to {high - 1}")
    return number


def make_config(blocking: bool = True, name: Optional[str] = None) -> Config:
    undefined = -2**31
    return Config(ctypes.sizeof(Config), 0xcafebeef, version(), int(blocking), undefined, undefined, undefined, None,
                  undefined, undefined, None if name is None else name.encode())


# void callback(horingStream_t stream, horingResult_t status, void* userData); it may come on a thread of the library.
StreamCallback = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)

_P, _I, _S = c_void_p, c_int, c_size_t
_OUT_INT, _OUT_POINTER, _OUT_U64 = POINTER(c_int), POINTER(c_void_p), POINTER(c_uint64)
_CALL = (_P, _P)  # comm, stream

_SIGNATURES = {
    "horingGetVersion": (_OUT_INT,),
    "horingSetDefault": (c_char_p, c_char_p),
    "horingGetUniqueId": (POINTER(UniqueId),),
    "horingCommInitRank": (_OUT_POINTER, _I, UniqueId, _I),
    "horingCommInitRankConfig": (_OUT_POINTER, _I, UniqueId, _I, POINTER(Config)),
    "horingCommInitRankScalable": (_OUT_POINTER, _I, _I, _I, POINTER(UniqueId), POINTER(Config)),
    "horingCommInitRankOptions": (_OUT_POINTER, _I, UniqueId, _I, POINTER(Config), POINTER(Options)),
    "horingSetThreadOptions": (POINTER(Options), POINTER(Options)),
    "horingSetCallOptions": (POINTER(CallOptions), POINTER(CallOptions)),
    "horingCommInitAll": (_OUT_POINTER, _I, POINTER(c_int)),
    "horingCommInitFromEnv": (_OUT_POINTER,),
    "horingCommSplit": (_P, _I, _I, _OUT_POINTER, POINTER(Config)),
    "horingCommShrink": (_P, POINTER(c_int), _I, _OUT_POINTER, POINTER(Config), _I),
    "horingCommGetUniqueId": (_P, POINTER(UniqueId)),
    "horingCommGrow": (_P, _I, POINTER(UniqueId), _I, _OUT_POINTER, POINTER(Config)),
    "horingCommRevoke": (_P, _I),
    "horingCommSuspend": (_P, _I),
    "horingCommResume": (_P,),
    "horingCommIsSuspended": (_P, _OUT_INT),
    "horingCommIsReproducible": (_P, _OUT_INT),
    "horingCommFinalize": (_P,),
    "horingCommDestroy": (_P,),
    "horingCommAbort": (_P,),
    "horingCommSetTimeout": (_P, _I),
    "horingCommGetTimeout": (_P, _OUT_INT),
    "horingCommCount": (_P, _OUT_INT),
    "horingCommUserRank": (_P, _OUT_INT),
    "horingCommGetAsyncError": (_P, _OUT_INT),
    "horingCommGetFailedRank": (_P, _OUT_INT),
    "horingCommCuDevice": (_P, _OUT_INT),
    "horingCommMemoryBytes": (_P, _OUT_U64),
    "horingCommDescribe": (_P, _P, _S),
    "horingCommBlock": (_P, _I, _I, _OUT_INT),
    "horingCommGroup": (_P, _I, _OUT_INT, _OUT_INT),
    "horingMemAlloc": (_OUT_POINTER, _S),
    "horingMemFree": (_P,),
    "horingCommRegister": (_P, _P, _S, _OUT_POINTER),
    "horingCommDeregister": (_P, _P),
    "horingRedOpCreatePreMulSum": (_OUT_INT, _P, _I, _I, _P),
    "horingRedOpDestroy": (_I, _P),
    "horingAllReduce": (_P, _P, _S, _I, _I) + _CALL,
    "horingReduceScatter": (_P, _P, _S, _I, _I) + _CALL,
    "horingAllGather": (_P, _P, _S, _I) + _CALL,
    "horingReduceScatterOrdered": (_P, _P, _S, _I, _I, _I) + _CALL,
    "horingAllGatherOrdered": (_P, _P, _S, _I, _I) + _CALL,
    "horingBroadcast": (_P, _P, _S, _I, _I) + _CALL,
    "horingBcast": (_P, _S, _I, _I) + _CALL,
    "horingReduce": (_P, _P, _S, _I, _I, _I) + _CALL,
    "horingGather": (_P, _P, _S, _I, _I) + _CALL,
    "horingScatter": (_P, _P, _S, _I, _I) + _CALL,
    "horingAlltoAll": (_P, _P, _S, _I) + _CALL,
    "horingAllGatherV": (_P, _S, _P, _P, _P, _I) + _CALL,
    "horingReduceScatterV": (_P, _P, _P, _P, _I, _I) + _CALL,
    "horingGatherV": (_P, _S, _P, _P, _P, _I, _I) + _CALL,
    "horingScatterV": (_P, _P, _P, _P, _S, _I, _I) + _CALL,
    "horingAlltoAllV": (_P, _P, _P, _P, _P, _P, _I) + _CALL,
    "horingAllReduceList": (_P, _P, _P, _S, _I, _I) + _CALL,
    "horingReduceScatterList": (_P, _P, _P, _S, _I, _I) + _CALL,
    "horingAllGatherList": (_P, _P, _P, _S, _I) + _CALL,
    "horingSend": (_P, _S, _I, _I) + _CALL,
    "horingRecv": (_P, _S, _I, _I) + _CALL,
    "horingSendTagged": (_P, _S, _I, _I, c_uint64) + _CALL,
    "horingRecvTagged": (_P, _S, _I, _I, c_uint64, _P) + _CALL,
    "horingCommWindowRegister": (_P, _P, _S, _OUT_POINTER, _I),
    "horingCommWindowDeregister": (_P, _P),
    "horingWinGetUserPtr": (_P, _P, _OUT_POINTER),
    "horingPutSignal": (_P, _S, _I, _I, _P, _S, _I, _I, ctypes.c_uint) + _CALL,
    "horingSignal": (_I, _I, _I, ctypes.c_uint) + _CALL,
    "horingWaitSignal": (_I, _P) + _CALL,
    "horingGroupStart": (),
    "horingGroupEnd": (),
    "horingGroupDiscard": (),
    "horingGroupSimulateEnd": (_P,),
    "horingGroupExplainEnd": (_P, _P, _S),
    "horingStreamCreate": (_OUT_POINTER,),
    "horingStreamDestroy": (_P,),
    "horingStreamSynchronize": (_P,),
    "horingStreamQuery": (_P,),
    "horingStreamAddCallback": (_P, StreamCallback, _P),
    "horingStreamMark": (_P, _OUT_U64),
    "horingStreamWait": (_P, c_uint64, _I),
    "horingStreamWaitOnGpu": (_P, c_uint64, _P, _P),
}

library = _library.load()

if TYPE_CHECKING:

    # The functions, which the loop below binds.
    horingGetVersion: Any
    horingCommGetFailedRank: Any

    def __getattr__(name: str) -> Any: ...


def _bind(name: str, arguments: tuple, result=c_int):
    function = getattr(library, name)
    function.argtypes, function.restype = arguments, result
    return function


for _name, _arguments in _SIGNATURES.items():
    globals()[_name] = _bind(_name, _arguments) if hasattr(library, _name) else None
horingGetErrorString = _bind("horingGetErrorString", (_I,), c_char_p)
horingGetLastError = _bind("horingGetLastError", (_P,), c_char_p)


def version() -> int:
    """The library's version as one number: 100 for 0.1.0."""
    number = c_int()
    check(horingGetVersion(number))
    return number.value


def failed_rank(comm: Optional[int]) -> Optional[int]:
    """The rank that the communicator's error is about; None if there is none."""
    rank = c_int(-1)
    if comm is None or horingCommGetFailedRank(comm, rank) != SUCCESS:
        return None
    return None if rank.value < 0 else rank.value


def error(code: int, comm: Optional[int] = None) -> HoringError:
    """The exception for a call that returned `code` just now on this thread; `comm` is asked for the failed rank."""
    text = horingGetLastError(None) or horingGetErrorString(code)
    return class_of(code)(text.decode(errors="replace"), code, failed_rank(comm))


def comm_error(code: int, comm: int) -> HoringError:
    """The exception for an error that sticks to `comm`, whichever thread met it first."""
    text = horingGetLastError(comm) or horingGetErrorString(code)
    return class_of(code)(text.decode(errors="replace"), code, failed_rank(comm))


def check(code: int, comm: Optional[int] = None) -> None:
    """Raises the exception for a result that is not success. Call it at once, on the thread that made the call."""
    if code:
        raise error(code, comm)


# HORING_LIBRARY may name any.
_major, _minor = version() // 10000, version() // 100 % 100
if not f"{_major}.{_minor}.".startswith(f"{_library.INTERFACE}."):
    raise ImportError(f"{library._name} is horing {_major}.{_minor}; this package needs {_library.INTERFACE}")
