"""How the ranks of a group find each other: through torch's store alone.

A store may outlive groups, so it may hold what an earlier group left. Rank 0 numbers its meetings by a counter in the store;
another rank goes to the newest meeting that it has not been to. That may be one of an earlier group which this rank never joined:
then it is never complete, or its maker is gone, and the rank goes to the next.
"""

from __future__ import annotations

import ctypes
import time

from .. import _capi
from ..errors import HoringError
from .failures import failure
from .secret import seal, unseal

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.05  # seconds between looks into the store
_STALE = {5, 6}  # the ID was used already, or the process that made it has ended
_TIMEOUT = 8


class Meeting:
    """The ranks of a group that is being made. `deadline` is in seconds of time.monotonic()."""

    def __init__(self, store, rank: int, size: int, deadline: float):
        self._store, self._rank, self._size, self._deadline = store, rank, size, deadline
        self.number = 0

    def communicator(self) -> int:
        """Blocks until all ranks are here, then makes the communicator's handle. Collective."""
        while True:
            unique_id = self._make() if self._rank == 0 else self._find()
            if not (unique_id and self._all_arrive()):
                continue  # an earlier group's meeting
            try:
                return self._init_rank(unique_id)
            except HoringError as error:
                if self._rank == 0 or error.code not in _STALE or time.monotonic() >= self._deadline:
                    raise failure(error.code, error.text, error.rank) from None

    def _make(self) -> _capi.UniqueId:
        unique_id = _capi.UniqueId()
        _capi.check(_capi.horingGetUniqueId(unique_id))
        self.number = self._store.add("meetings", 1)
        self._store.set(self._key("id"), seal(bytes(unique_id.internal), self._key("id")))
        return unique_id

    def _find(self) -> _capi.UniqueId | None:
        self.number = max(self._store.add("meetings", 0), self.number + 1)
        while self._store.add(self._key(f"seen by {self._rank}"), 1) > 1:
            self.number += 1
        if not self._await("id"):
            return None
        unique_id = _capi.UniqueId()
        number = unseal(self._store.get(self._key("id")), self._key("id"))
        ctypes.memmove(unique_id.internal, number, _capi.UNIQUE_ID_BYTES)
        return unique_id

    def _all_arrive(self) -> bool:
        """Rank 0 has the last word: a meeting that it has given up is never complete."""
        self._store.set(self._key(f"rank {self._rank}"), "here")
        if self._rank > 0:
            if self._store.add(self._key("others"), 1) == self._size - 1:
                self._store.set(self._key("all others"), "here")
            return self._await("all")
        if self._size > 1:
            self._await("all others")
        self._store.set(self._key("all"), "here")
        return True

    def _init_rank(self, unique_id: _capi.UniqueId) -> int:
        handle = ctypes.c_void_p()
        _capi.check(_capi.horingCommInitRank(handle, self._size, unique_id, self._rank))
        return handle.value

    def _key(self, name: str) -> str:
        return f"{self.number} {name}"

    def _await(self, key: str) -> bool:
        """Waits for the key; False if there is a newer meeting meanwhile. Looks again and again: a wait in the store would log a
        warning when it is cut short, and could not be interrupted."""
        pause = _SHORTEST_PAUSE
        while not self._store.check([self._key(key)]):
            if self._store.add("meetings", 0) > self.number:
                return False
            if time.monotonic() >= self._deadline:
                raise failure(_TIMEOUT, self._late())
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return True

    def _late(self) -> str:
        missing = [rank for rank in range(self._size) if not self._store.check([self._key(f"rank {rank}")])]
        return (f"rank {self._rank} of {self._size}: the group was not made in time: no sign of rank "
                f"{', '.join(map(str, missing)) or '(all were here)'}. Check that each has started, uses the same store, and makes "
                "the same groups in the same order")
