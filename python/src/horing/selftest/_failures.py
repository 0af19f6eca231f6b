"""Failures: each check is a job of 3 ranks whose last rank fails.

A check is a function of a communicator that returns if the rank gets the expected error, and raises otherwise.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, Type

import horing
from horing import Communicator

RANKS = 3
LONGEST_SECONDS = 8.0  # until another rank must have learned of it: 5 s, and the time of a busy machine
TIMEOUT_MS = 1500      # of operations, where the timeout is checked


def _is_last(comm: Communicator) -> bool:
    return comm.rank == comm.size - 1


def _expect_error(comm: Communicator, kind: Type[horing.HoringError], call: Callable[[], Any]) -> None:
    begin = time.monotonic()
    try:
        call()
    except kind as error:
        took = time.monotonic() - begin
        assert took < LONGEST_SECONDS, f"took {took:.1f} s"
        assert error.rank == comm.size - 1, f"names rank {error.rank}: {error}"
        assert str(comm.size - 1) in str(error), str(error)
        return
    raise AssertionError(f"no {kind.__name__} was raised")


def _barriers(comm: Communicator) -> None:
    while True:
        comm.barrier()


def lost_rank(comm: Communicator) -> None:
    """a rank is killed: the other ranks get a RemoteError that names it, and continue without it"""
    comm.barrier()
    if _is_last(comm):
        os.kill(os.getpid(), signal.SIGKILL)
    _expect_error(comm, horing.RemoteError, lambda: _barriers(comm))
    rest = comm.shrink([comm.size - 1], abort=True)
    values = bytearray([1])
    rest.all_reduce(values)
    assert values[0] == comm.size - 1


def late_rank(comm: Communicator) -> None:
    """a rank never makes the call: the other ranks get a TimeoutError that names it"""
    comm.barrier()
    if _is_last(comm):
        time.sleep(2 * TIMEOUT_MS / 1000)
        return
    _expect_error(comm, horing.TimeoutError, comm.barrier)


def other_call(comm: Communicator) -> None:
    """a rank calls something else: all get an InvalidUsageError"""
    try:
        comm.all_reduce(bytearray(16 if _is_last(comm) else 8))
    except horing.InvalidUsageError:
        return
    raise AssertionError("no InvalidUsageError was raised")


def interrupt(comm: Communicator) -> None:
    """Ctrl-C in a collective: KeyboardInterrupt within a second, a RemoteError elsewhere"""
    comm.barrier()
    if not _is_last(comm):
        _expect_error(comm, horing.RemoteError, comm.barrier)
        return
    time.sleep(0.2)  # the other ranks are in the barrier before
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    try:
        comm.recv(bytearray(1), 0)
    except KeyboardInterrupt:
        assert time.monotonic() - begin < 1.3
        return
    raise AssertionError("no KeyboardInterrupt was raised")


def exit_code(comm: Communicator) -> None:
    """a program that ends without closing anything ends with its own exit code"""
    if _is_last(comm):
        with contextlib.suppress(horing.RemoteError):  # the others may end, and so abort, before the barrier is seen here
            comm.barrier()
    else:
        comm.barrier()
        comm.send(bytearray(1 << 20), comm.size - 1, stream=horing.Stream())  # under way while it ends
    sys.exit(EXIT_CODE)


EXIT_CODE = 7
# The exit code of each rank's process; the last number is the last rank's.
ENDS: Dict[str, tuple] = {"lost_rank": (0, 0, -signal.SIGKILL), "exit_code": (EXIT_CODE,) * RANKS}
FAILURES: Dict[str, Callable[[Communicator], None]] = {
    each.__name__: each for each in (lost_rank, late_rank, other_call, interrupt, exit_code)}
