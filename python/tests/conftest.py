"""Ranks for tests: threads of this process, or separate processes that run a text."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import horing

os.environ.setdefault("HORING_CACHE_DIR", "off")  # a user's measurements must not affect tests
os.environ.setdefault("HORING_TIMEOUT_MS", "30000")
# A shell that starts tests in the background has SIGINT ignored, which ranks would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

SECONDS = 60


@pytest.fixture
def on_ranks():
    """on_ranks(n, function): function(comm) on n ranks, each a thread. Their results; raises the first exception."""

    def run(size, function):
        results, errors = [None] * size, []
        comms = horing.Communicator.create_all(size)

        def drive(comm):
            try:
                results[comm.rank] = function(comm)
            except BaseException as error:
                errors.append(error)
                comm.abort()

        threads = [threading.Thread(target=drive, args=(comm,), daemon=True) for comm in comms]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
            assert not thread.is_alive(), "a rank hangs"
        for comm in comms:
            comm.close()
        if errors:
            raise errors[0]
        return results

    return run


_MEET = """
import os, sys, time
from pathlib import Path
import horing

rank, size, folder = int(os.environ["TEST_RANK"]), int(os.environ["TEST_SIZE"]), Path(os.environ["TEST_FOLDER"])
def meet(name="id"):
    if rank == 0:
        (folder / (name + ".new")).write_bytes(horing.unique_id())
        (folder / (name + ".new")).rename(folder / name)
    while not (folder / name).exists():
        time.sleep(0.01)
    return horing.Communicator((folder / name).read_bytes(), size, rank)
"""


class Ended:
    """What became of one rank's process."""

    def __init__(self, code, out):
        self.code, self.out = code, out

    def __repr__(self):
        return f"code {self.code}: {self.out}"


@pytest.fixture
def job(tmp_path):
    """job(n, text, **environment): runs text in n processes, where `meet()` makes a communicator. How each ended."""

    def run(size, text, **environment):
        script = tmp_path / "job.py"
        script.write_text(_MEET + textwrap.dedent(text))
        processes = [subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      text=True, env={**os.environ, "TEST_RANK": str(rank), "TEST_SIZE": str(size),
                                                      "TEST_FOLDER": str(tmp_path), **environment})
                     for rank in range(size)]
        try:
            outs = [process.communicate(timeout=SECONDS)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
        return [Ended(process.returncode, out) for process, out in zip(processes, outs)]

    return run


@pytest.fixture
def project():
    """The folder of the sources; skips where the tests run without them."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / "include/horing/horing.h").exists():
        pytest.skip("the sources are not here")
    return folder
