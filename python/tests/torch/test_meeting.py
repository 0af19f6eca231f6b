"""A rank that ends while a group is being made is named by the others, wherever it was."""

from __future__ import annotations

import itertools
import os
import signal
from datetime import timedelta

import pytest
import torch.distributed as dist

from horing.torch import ProcessGroupHoring, meeting
from ranks import run

SIZE, GLOBAL_RANKS = 3, [10, 11, 12]


class Fatal(dist.FileStore):
    """Its process is killed where it would set a key that ends with `word`."""

    word = ""

    def set(self, key, value):
        if key.endswith(self.word):
            os.kill(os.getpid(), signal.SIGKILL)
        super().set(key, value)


def outcomes_where(victim: int, word: str, host: int) -> list:
    """Of the other ranks: the type, rank and text of their exceptions."""

    def body(rank, size, folder):
        meeting._turns, Fatal.word = itertools.count(host), word
        store = (Fatal if rank == victim else dist.FileStore)(os.path.join(folder, "store"), size)
        with pytest.raises(RuntimeError) as caught:
            ProcessGroupHoring(store, rank, size, timedelta(seconds=3), GLOBAL_RANKS)
        return type(caught.value).__name__, caught.value.rank, str(caught.value)

    outcomes = run(SIZE, body, group=False)
    assert outcomes[victim].exit_code == -signal.SIGKILL, outcomes
    others = [outcome for rank, outcome in enumerate(outcomes) if rank != victim]
    assert all(outcome.value for outcome in others), others
    return [outcome.value for outcome in others]


NO_SIGN, NO_FURTHER = "no sign of rank {}.", "rank {} came, but went no further"


@pytest.mark.parametrize("victim, word, host, expected", (
    (0, " trial", 0, NO_SIGN),  # before it opens the meeting
    (2, " rank 2", 0, NO_SIGN),
    (0, " all", 1, NO_FURTHER),  # before it says that all are here
    (0, " id", 0, NO_FURTHER),  # the host, after that
    (1, " id", 1, NO_FURTHER)))
def test_a_rank_that_ends_meanwhile(victim, word, host, expected):
    for kind, rank, text in outcomes_where(victim, word, host):
        assert (kind, rank) == ("TimeoutError", GLOBAL_RANKS[victim]) and expected.format(victim) in text, text
        assert f"its global ranks are {GLOBAL_RANKS}" in text


def test_the_host_ends_before_the_others_connect(monkeypatch):
    make = meeting.Meeting._init_rank

    def die_or_make(self, unique_id):
        if self._rank == self._host:
            os.kill(os.getpid(), signal.SIGKILL)
        return make(self, unique_id)

    monkeypatch.setattr(meeting.Meeting, "_init_rank", die_or_make)
    for kind, _, text in outcomes_where(1, "nothing", 1):
        assert kind in ("TimeoutError", "RemoteError") and "Rank 1 hosts the rendezvous" in text, (kind, text)
