"""One rank of the self-test: started by ``__main__``, writes its results to a file."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Optional

import horing
from horing import Communicator

from ._checks import CHECKS
from ._failures import FAILURES


def _meet(folder: Path, size: int, rank: int) -> Communicator:
    """Joins by an ID in a private folder: a launcher would end the ranks of a job that fails."""
    place = folder / "id"
    if rank == 0:
        draft = folder / "id.new"
        draft.write_bytes(horing.unique_id())
        draft.rename(place)
    deadline = time.monotonic() + 60
    while not place.exists():
        if time.monotonic() > deadline:
            raise horing.TimeoutError("rank 0 made no ID within 60 s")
        time.sleep(0.01)
    return Communicator(place.read_bytes(), size, rank, name="selftest")


def _report(folder: Path, rank: int, check: str, cases: int, error: Optional[str], seconds: float) -> None:
    with open(folder / f"rank{rank}", "a", encoding="utf-8") as file:
        file.write(json.dumps({"check": check, "cases": cases, "error": error, "seconds": seconds}) + "\n")


def run_checks(folder: Path) -> int:
    """Every check, on the communicator of horing-run; after a failure the rest could wait for ranks out of step."""
    with Communicator.from_environment() as comm:
        for name, check in CHECKS.items():
            begin, cases, error = time.monotonic(), 0, None
            try:
                cases = check(comm)
            except Exception:
                error = traceback.format_exc()
            _report(folder, comm.rank, name, cases, error, time.monotonic() - begin)
            if error is not None:
                comm.abort()
                return 1
    return 0


def run_failure(folder: Path, name: str, size: int, rank: int) -> int:
    comm = _meet(folder, size, rank)
    begin, error = time.monotonic(), None
    try:
        FAILURES[name](comm)
    except Exception:
        error = traceback.format_exc()
    _report(folder, rank, name, 1, error, time.monotonic() - begin)
    comm.close()
    return 0 if error is None else 1


def main(arguments: list) -> int:
    folder = Path(os.environ["SELFTEST_FOLDER"])
    if arguments[0] == "checks":
        return run_checks(folder)
    return run_failure(folder, arguments[0], int(arguments[1]), int(arguments[2]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
