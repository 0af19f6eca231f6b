"""Messages between two ranks of a group.

Torch expects messages to progress in whatever order they were started: only those with the same source, destination and tag
follow each other. So these three name a channel, which is a communicator of the two ranks, made when it is first used, with a
lane of its own.
"""

from __future__ import annotations

import threading
import time

import torch.distributed as dist

from .. import _capi
from .lane import Lane
from .meeting import Meeting
from .operation import Operation, Work
from .own_messages import OwnMessages
from .staging import Staging
from .tensors import movable

_MOST_TAGS = 64  # between two ranks: each is a communicator


class _Message(Work):
    def __init__(self, lane, operation, source):
        super().__init__(lane, operation)
        self._source = source

    def source_rank(self) -> int:
        """The rank in the group that the message came from."""
        return self._source


class Messages:
    """For a group with `_rank`, `_size`, `_timeout`, `_meeting` and `_store`. Each method returns at once, with a Work."""

    def _open_messages(self) -> None:
        self._channels: dict[tuple[int, int, int], Lane] = {}
        self._channels_lock = threading.Lock()
        self._own_messages = OwnMessages(self._describe, self._timeout)

    def send(self, tensors, dstRank: int, tag: int = 0):
        tensor, peer = tensors[0], dstRank
        if peer == self._rank:
            return self._handle(_Message(self._own_messages, self._own_messages.send(tensor, tag), peer))
        staging = Staging()
        buffer = staging.input(tensor)
        pointer, (dtype, count) = buffer.data_ptr(), movable(buffer)
        lane = self._channel(self._rank, peer, tag)
        return self._message("send", lane, staging, [], self._rank,
                             lambda stream: _capi.horingSend(pointer, count, dtype, 1, lane.comm, stream))

    def recv(self, tensors, srcRank: int, tag: int = 0):
        tensor, peer = tensors[0], srcRank
        if peer == self._rank:
            return self._handle(_Message(self._own_messages, self._own_messages.receive(tensor, tag), peer))
        staging = Staging()
        buffer = staging.output(tensor)
        pointer, (dtype, count) = buffer.data_ptr(), movable(buffer)
        lane = self._channel(peer, self._rank, tag)
        return self._message("recv", lane, staging, [tensor], peer,
                             lambda stream: _capi.horingRecv(pointer, count, dtype, 0, lane.comm, stream))

    def recv_anysource(self, tensors, tag: int = 0):
        raise NotImplementedError("horing receives from a rank that is named: pass src")

    def _message(self, name, lane, staging, result, source, call):
        operation = Operation(name, call, staging.tensors, result, staging.before, staging.after)
        lane.start(operation)
        return self._handle(_Message(lane, operation, source))

    def _channel(self, source: int, destination: int, tag: int) -> Lane:
        key = (source, destination, tag)
        with self._channels_lock:
            lane = self._channels.get(key)
            if lane is None:
                self._check_peer(source, destination)
                lane = self._channels[key] = self._new_channel(*key)
            return lane

    def _check_peer(self, source: int, destination: int) -> None:
        peer = destination if source == self._rank else source
        if not 0 <= peer < self._size:
            raise ValueError(f"there is no rank {peer} in this group of {self._size}")
        if sum(key[:2] == (source, destination) for key in self._channels) >= _MOST_TAGS:
            raise ValueError(f"more than {_MOST_TAGS} tags in use from rank {source} to {destination}: use fewer")

    def _new_channel(self, source: int, destination: int, tag: int) -> Lane:
        store = dist.PrefixStore(f"{self._meeting} message {source} {destination} {tag}", self._store)
        peers = (source, destination)

        def make() -> int:
            return self._new_communicator(Meeting(store, peers.index(self._rank), 2, time.monotonic() + self._timeout))

        def describe(operation: Operation) -> str:
            return f"{self._describe(operation)}, tag {tag}, between ranks {source} and {destination}"

        return Lane(make, describe, lambda rank: self._global_rank(peers[rank]), lazily=True)

    def _close_messages(self, close) -> None:
        with self._channels_lock:
            lanes = list(self._channels.values())
            self._channels.clear()
        for lane in lanes:
            close(lane)
