"""GPUs, as the operations of a group see them: what torch is asked about devices, streams and events is asked here.

A group has streams of its own on a GPU. An operation is enqueued on one of them, behind what the caller's stream holds by then; whoever
waits for it orders a stream behind it, and no thread.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist

from .failures import failure

KINDS = ["cuda"] if torch.version.cuda else []  # of devices whose memory and streams are CUDA's: torch for ROCm names its GPUs so, too
_LONGEST_NAP = 0.001  # seconds
_USAGE, _TIMEOUT = 5, 8
_LEGACY = 1  # cudaStreamLegacy: horing's NULL is no stream


def check_backend(group, kind: str) -> None:
    """Raises a TypeError if a program named another backend than horing for such devices: torch has made none."""
    named = dist.distributed_c10d._world.pg_backend_config.get(group, "")
    backend = dict(each.split(":") for each in named.split(",") if ":" in each).get(kind, "horing")
    if backend != "horing":
        raise TypeError(f'this group was made for "{named}", but torch made one of horing alone: name horing for {kind}, too '
                        f'("cpu:horing,{kind}:horing"), or make a group of its own for {backend} (new_group(backend="{backend}"))')


def has_passed(event, seconds: float) -> bool:
    """Blocks until a GPU has come to the event, at most so many seconds. Ctrl-C ends it."""
    deadline, nap = time.monotonic() + seconds, 0.00002
    while not event.query():
        if time.monotonic() >= deadline:
            return False
        time.sleep(nap)
        nap = min(2 * nap, _LONGEST_NAP)
    return True


def await_all(events, seconds: float) -> None:
    """As has_passed(), for each; raises a TimeoutError."""
    for event in events:
        if not has_passed(event, seconds):
            raise failure(_TIMEOUT, f"the work before it on the GPU is not complete after {seconds} s: a kernel hangs, or waits for a stream "
                          "that does")


@functools.cache
def _copy_stream(device: torch.device):
    """Of copies that need not wait. One for all groups: torch has 32 streams on a GPU, and gives them out again after that. A group
    whose stream is also that of another's copies could wait for itself."""
    return getattr(torch, device.type).Stream(device)


class Gpu:
    """A GPU, and the stream of one group there. Any thread; enqueue() one at a time."""

    def __init__(self, device: torch.device):
        self.device = device
        self._torch = getattr(torch, device.type)
        self._stream = self._torch.Stream(device)
        self._copies = _copy_stream(device)

    def enqueue(self, call: Callable[[int], int]) -> tuple[int, object]:
        """call(cudaStream_t), while the group's stream is the current one, which is ordered behind the caller's. Its result code, and an
        event behind what it enqueued. An error leaves nothing that the caller's stream is not ordered behind."""
        callers = self.current()
        self._stream.wait_stream(callers)
        code = None
        try:
            with self._torch.stream(self._stream):
                code = call(self._stream.cuda_stream)
        finally:
            event = self._stream.record_event()
            if code != 0:  # a graph that is recorded has to get this stream back
                callers.wait_event(event)
        return code, event

    def current(self):
        """The caller's stream."""
        return self._torch.current_stream(self.device)

    def mark(self):
        """An event behind what the caller's stream holds."""
        return self.current().record_event()

    def mark_own(self):
        """An event behind all operations of the group."""
        return self._stream.record_event()

    def order_behind(self, event) -> None:
        """The caller's stream goes on once the event has passed."""
        self.current().wait_event(event)

    @contextlib.contextmanager
    def entered(self) -> Iterator[int]:
        """The caller's stream, as a cudaStream_t, while its GPU is the current one."""
        stream = self.current()
        with self._torch.stream(stream):
            yield stream.cuda_stream or _LEGACY

    def check_not_recording(self) -> None:
        """Raises an error if the caller's stream records a graph."""
        with self._torch.stream(self.current()):
            if self._torch.is_current_stream_capturing():
                raise failure(_USAGE, "the current stream records a graph: messages of tensors on a GPU are not part of graphs")

    def beside(self):
        """A context in which the caller's stream is one that waits for nothing."""
        return self._torch.stream(self._copies)

    def copy(self, target: torch.Tensor, source: torch.Tensor):
        """Enqueues the copy on the caller's stream: one of both is in pinned memory. An event behind it."""
        target.copy_(source, non_blocking=True)
        return self.mark()

    def keep_here(self, tensor: torch.Tensor) -> None:
        """The memory of the tensor is not given to others before what the caller's stream holds by now is complete."""
        tensor.record_stream(self.current())

    def keep(self, tensors: list[torch.Tensor]) -> None:
        """The memory of the tensors is not given to others before what the group has enqueued by now is complete."""
        for tensor in tensors:
            tensor.record_stream(self._stream)

    def future(self, result) -> torch.futures.Future:
        """One that has the result at once, and orders streams of those who take it behind what the group has enqueued by now."""
        future = torch.futures.Future(devices=[self.device])
        with self._torch.stream(self._stream):
            future.set_result(result)
        return future

    def is_idle(self) -> bool:
        """Whether all operations of the group are complete. A GPU that has failed completes none."""
        try:
            return self._stream.query()
        except RuntimeError:
            return True
