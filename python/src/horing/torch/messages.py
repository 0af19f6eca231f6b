"""Messages between two ranks of a group.

Torch expects messages to progress independently of each other and of collectives: only messages with the same
source, destination and tag are ordered. So these three name a channel, a stream of the group's communicator. The library
matches messages by tag and rank.
"""

from __future__ import annotations

import ctypes
import threading

import torch

from .. import _capi
from .devices import KINDS
from .lane import Lane
from .messages_on_gpu import ReceiveOnGpu, SendFromGpu, ToOneself
from .operation import Operation, Work
from .own_messages import OwnMessages
from .profiling import shown
from .staging import Staging
from .tensors import movable

_ANY_RANK = -1
_MOST_CHANNELS = 64  # before idle ones are reused


class _Message(Work):
    def __init__(self, lane, operation, source: ctypes.c_int):
        super().__init__(lane, operation)
        self._source = source

    def is_completed(self) -> bool:
        return self._lane.is_complete(self._operation)

    def source_rank(self) -> int:
        """The rank in the group that the message came from, once it is complete."""
        return self._source.value


class _MessageOnGpu(_Message):
    """It has the result, and the operation, which a lane keeps for longer, has none."""

    def __init__(self, lane, operation, source: ctypes.c_int, result: list):
        super().__init__(lane, operation, source)
        self._result = result

    def result(self) -> list[torch.Tensor]:
        return self._result

    def source_rank(self) -> int:
        """The same. Blocks until a message from any rank has come."""
        if self._source.value == _ANY_RANK:
            self._lane.await_arrival(self._operation)
        return self._source.value


class Messages:
    """For a group with `_rank`, `_size`, `_member`, `_timeout`, `_lane` and `_on_gpu`. Each method returns at once, with a Work."""

    def _open_messages(self) -> None:
        self._channels: dict[tuple[int, int, int], Lane] = {}
        self._channels_lock = threading.Lock()
        self._own_messages = OwnMessages(self._member.describe, self._timeout)

    def send(self, tensors, dstRank: int, tag: int = 0):
        tensor, peer = tensors[0], dstRank
        if peer == self._rank:
            return self._own(Operation("send", None, [tensor]), tag)
        self._check_peer(peer)
        staging = self._staging_of(tensor, SendFromGpu)
        buffer = staging.input(tensor)
        pointer, (dtype, count) = buffer.data_ptr(), movable(buffer)
        return self._message(f"send to rank {peer} with tag {tag}", (self._rank, peer, tag), staging, [], ctypes.c_int(self._rank),
                             lambda stream: _capi.horingSendTagged(pointer, count, dtype, peer, tag, self._lane.comm, stream))

    def recv(self, tensors, srcRank: int, tag: int = 0):
        if srcRank == self._rank:
            return self._own(Operation("recv", None, [tensors[0]], [tensors[0]]), tag)
        self._check_peer(srcRank)
        return self._receive(tensors[0], srcRank, tag, f"recv from rank {srcRank} with tag {tag}")

    def recv_anysource(self, tensors, tag: int = 0):
        """From any other rank."""
        return self._receive(tensors[0], _ANY_RANK, tag, f"recv from any rank with tag {tag}")

    def _receive(self, tensor, peer: int, tag: int, name: str):
        staging = self._staging_of(tensor, ReceiveOnGpu)
        buffer = staging.output(tensor)
        pointer, (dtype, count) = buffer.data_ptr(), movable(buffer)
        source = ctypes.c_int(peer)
        return self._message(name, (peer, self._rank, tag), staging, [tensor], source,
                             lambda stream: _capi.horingRecvTagged(pointer, count, dtype, peer, tag, ctypes.addressof(source),
                                                                   self._lane.comm, stream))

    def _staging_of(self, tensor, on_gpu):
        if tensor.device.type not in KINDS:
            return Staging()
        gpu = self._on_gpu(tensor.device).gpu
        gpu.check_not_recording()
        self._lane.bind(gpu, self._channels_lock)
        return on_gpu(gpu, self._timeout)

    def _own(self, operation: Operation, tag: int):
        source, tensor = ctypes.c_int(self._rank), operation.tensors[0]
        if tensor.device.type not in KINDS:
            shown(self._own_messages.start, operation, tag)
            return self._handle(_Message(self._own_messages, operation, source))
        on_gpu = ToOneself(self._on_gpu(tensor.device).gpu, tensor)
        operation.call = on_gpu.run
        shown(self._own_messages.start, operation, tag)
        return self._handle(_MessageOnGpu(on_gpu.on(self._own_messages), operation, source, operation.result))

    def _message(self, name: str, channel: tuple[int, int, int], staging, result: list, source: ctypes.c_int, call):
        on_gpu = not isinstance(staging, Staging)
        operation = Operation(name, call, staging.tensors, [] if on_gpu else result, staging.before, staging.after)
        with self._channels_lock:
            lane = self._channel(channel)
            shown(lane.start, operation)
        if not on_gpu:
            return self._handle(_Message(lane, operation, source))
        return self._handle(_MessageOnGpu(staging.on(lane), operation, source, result))

    def _check_peer(self, peer: int) -> None:
        if not 0 <= peer < self._size:
            raise ValueError(f"there is no rank {peer} in this group of {self._size}")

    def _channel(self, key: tuple[int, int, int]) -> Lane:
        lane = self._channels.get(key)
        if lane is None:
            idle = [other for other, lane in self._channels.items() if not lane.is_busy()] if len(
                self._channels) >= _MOST_CHANNELS else []
            lane = self._channels[key] = self._channels.pop(idle[0]) if idle else self._lane.branch()
        return lane
