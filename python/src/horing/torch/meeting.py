"""How the ranks of a group find each other: through torch's store alone.

A store may outlive groups, so it may hold keys of an earlier group. Rank 0 numbers its meetings by a counter in the store; another
rank goes to the newest meeting that it has not tried. That may belong to an earlier group which this rank never joined: then it
never completes, or its maker has ended, and the rank tries the next.

When all ranks are there, one of them makes the ID and hosts the rendezvous, which takes descriptors of its process. Rank 0
chooses the ranks in turn.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import time
from collections.abc import Sequence

from .. import _capi
from ..errors import HoringError
from .failures import failure
from .member import Member
from .secret import seal, unseal

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.05  # seconds between looks into the store
_LONGEST_TIMEOUT = 86_400  # seconds that the library takes
_STALE = {5, 6}  # the ID was used already, or the process that made it has ended
_TIMEOUT = 8
_turns = itertools.count()  # of the meetings that this process opened as rank 0


class Meeting:
    """The ranks of a group that is being made.

    They meet within `timeout` seconds, and connect within as many again. Errors name the ranks to blame.
    """

    def __init__(self, store, member: Member, timeout: float):
        self._store, self._member, self._timeout = store, member, timeout
        self._deadline = time.monotonic() + timeout
        self._rank, self._size = member.rank, len(member.global_ranks)
        self.number, self._host = 0, 0

    def communicator(self) -> int:
        """Blocks until all ranks are here, then makes the communicator's handle. Collective."""
        lost = None  # why the latest meeting failed
        while True:
            try:
                unique_id = self._meet()
            except TimeoutError:
                if lost is not None:
                    raise lost from None
                raise
            if not unique_id:
                continue  # an earlier group's meeting
            try:
                return self._init_rank(unique_id)
            except HoringError as error:
                lost = failure(error.code, f"{self._member}: {error.text}. Rank {self._host} hosts the rendezvous")
                if self._rank == 0 or error.code not in _STALE or time.monotonic() >= self._deadline:
                    raise lost from None

    def _meet(self) -> _capi.UniqueId | None:
        found = self._open() if self._rank == 0 else self._find()
        return (self._make() if self._rank == self._host else self._take()) if found and self._all_arrive() else None

    def _open(self) -> bool:
        self._host = next(_turns) % self._size
        self.number = self._store.add("meetings", 1)
        self._store.set(self._key("trial"), seal(os.urandom(_capi.UNIQUE_ID_BYTES), self._key("trial")))
        return True

    def _find(self) -> bool:
        self.number = max(self._store.add("meetings", 0), self.number + 1)
        while self._store.add(self._key(f"seen by {self._rank}"), 1) > 1:
            self.number += 1
        if not self._await(["trial"], 0, [0]):
            return False
        unseal(self._store.get(self._key("trial")), self._key("trial"))  # a rank with another key reports that first
        return True

    def _make(self) -> _capi.UniqueId:
        unique_id = _capi.UniqueId()
        _capi.check(_capi.horingGetUniqueId(unique_id))
        self._store.set(self._key("id"), seal(bytes(unique_id.internal), self._key("id")))
        return unique_id

    def _take(self) -> _capi.UniqueId | None:
        if not self._await(["id"], self._host, [self._host]):
            return None
        unique_id = _capi.UniqueId()
        number = unseal(self._store.get(self._key("id")), self._key("id"))
        ctypes.memmove(unique_id.internal, number, _capi.UNIQUE_ID_BYTES)
        return unique_id

    def _all_arrive(self) -> bool:
        """Rank 0 decides: a meeting that it has given up never completes."""
        everyone = range(self._size)
        self._store.set(self._key(_sign_of(self._rank)), "here")
        if self._rank > 0:
            if not self._await(["all"], 0, everyone):
                return False
            self._host = int(self._store.get(self._key("all")))
            return True
        self._await([_sign_of(rank) for rank in everyone], 0, everyone)
        self._store.set(self._key("all"), str(self._host))  # all ranks are here; the host
        return True

    def _init_rank(self, unique_id: _capi.UniqueId) -> int:
        handle = ctypes.c_void_p()
        options = _capi.make_options(init_timeout=max(0.001, min(self._timeout, _LONGEST_TIMEOUT)))
        _capi.check(_capi.horingCommInitRankOptions(handle, self._size, unique_id, self._rank, None, options))
        return handle.value

    def _key(self, name: str) -> str:
        return f"{self.number} {name}"

    def _await(self, names: list[str], author: int, ranks: Sequence[int]) -> bool:
        """Waits for keys that rank `author` sets once `ranks` are here; False if there is a newer meeting meanwhile. Polls: a wait
        in the store would log a warning when it is cut short, and could not be interrupted."""
        keys, pause = [self._key(name) for name in names], _SHORTEST_PAUSE
        while True:
            # Read before the deciding check, so that a missing rank has not arrived by then.
            late = self._late(author, ranks) if time.monotonic() >= self._deadline else None
            if self._store.check(keys):
                return True
            if self._store.add("meetings", 0) > self.number:
                return False
            if late is not None:
                raise late
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _late(self, author: int, ranks: Sequence[int]) -> Exception:
        text = f"{self._member}: the group was not made in time"
        missing = [rank for rank in ranks if not self._store.check([self._key(_sign_of(rank))])]
        if missing:
            return failure(_TIMEOUT, f"{text}: no sign of rank {', '.join(map(str, missing))}. Check that each has started, uses the "
                           "same store, and makes the same groups in the same order", self._member.global_rank(missing[0]))
        return failure(_TIMEOUT, f"{text}: rank {author} came, but went no further. It has ended, is stopped, or no longer reaches the "
                       "store: look at its output", self._member.global_rank(author))


def _sign_of(rank: int) -> str:
    return f"rank {rank}"
