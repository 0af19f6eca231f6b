"""The ranks of one library, which run for the whole comparison and take turns on request (see turns.h)."""
import os
import select
import socket
import time
from typing import NamedTuple

START_S = 60
TURN_S = 120  # beyond the time that is expected


class TeamFailed(Exception):
    """The reason, for people."""


class Turn(NamedTuple):
    collective: str
    bytes: int
    warmups: int
    iterations: int
    checked: bool

    def words(self):
        check = "check" if self.checked else "trust"
        return f"{self.collective} {self.bytes} {self.warmups} {self.iterations} {check}\n".encode()


def read_line(connection):
    data = b""
    while not data.endswith(b"\n"):
        more = connection.recv(4096)
        if not more:
            raise TeamFailed("a rank ended")
        data += more
    return data.decode().strip()


def cores_of_ranks(ranks, ranks_of_a_node, cores):
    """The core of each rank, as horing-run --bind-to core has it where cores have one thread each: as many ranks on each, and those
    of different nodes with one local rank, who talk to each other, on different ones. Left to the scheduler, which does not move
    ranks that only yield, a job can be twice as slow as the next."""
    taken = []
    for rank in range(ranks):
        like = taken[rank % ranks_of_a_node::ranks_of_a_node]
        taken.append(min(cores, key=lambda core: (taken.count(core), like.count(core))))
    return taken


class Team:
    """A context manager: leaving it ends the ranks."""

    def __init__(self, library, job, nodes):
        self.library, self.ranks, self.ranks_of_a_node = library, job.ranks, job.ranks_of_a_node()
        self.connections, self.failure = [], None
        self.cores = cores_of_ranks(self.ranks, self.ranks_of_a_node, sorted(os.sched_getaffinity(0)))
        slug = library.name.lower().replace(" ", "_")
        path = os.path.join(job.folder, f"{slug}.sock")
        self.log_path = os.path.join(job.folder, f"{slug}.log")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(job.ranks)
        with open(self.log_path, "wb") as log:
            self.programs = [nodes.start(start.node, start.command, start.environment, log.fileno())
                             for start in library.start(job, path, library.settings)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.connections:
            connection.close()
        self.listener.close()
        deadline = time.monotonic() + 5
        for program in self.programs:
            try:
                program.wait(max(0.01, deadline - time.monotonic()))
            except OSError:
                pass
            program.end()

    def said(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            lines = [line.rstrip() for line in log if line.strip()]
        return "".join(f"\n    {line}" for line in lines[-8:])

    def fail(self, reason):
        self.failure = reason + self.said()
        for program in self.programs:
            program.end()
        raise TeamFailed(self.failure)

    def wait_for_ranks(self):
        deadline = time.monotonic() + START_S
        sizes = set()
        while len(self.connections) < self.ranks:
            ready = select.select([self.listener, *self.programs], [], [], max(0, deadline - time.monotonic()))[0]
            if self.listener in ready:
                connection, _ = self.listener.accept()
                connection.settimeout(START_S)
                rank, size = map(int, read_line(connection).split())
                sizes.add(size)
                self.connections.append(connection)
                connection.sendall(f"core {self.cores[rank]}\n".encode())
                answer = read_line(connection)
                if answer != "ok":
                    self.fail(f"rank {rank}: {answer}")
            elif ready:
                self.fail(f"it ended with exit code {ready[0].wait(1)} before its ranks were there")
            else:
                self.fail(f"only {len(self.connections)} of {self.ranks} ranks came within {START_S} s")
        if sizes != {self.ranks}:
            self.fail(f"its ranks think that there are {sorted(sizes)} of them instead of {self.ranks}")

    def play(self, turn, expected_s):
        """Seconds of a call: the slowest rank's time for all iterations, over their number."""
        for connection in self.connections:
            connection.sendall(turn.words())
        deadline = time.monotonic() + TURN_S + 3 * expected_s
        slowest_ns = wrong = 0
        for rank, connection in enumerate(self.connections):
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                words = read_line(connection).split(maxsplit=1)
            except (TimeoutError, OSError, TeamFailed) as error:
                self.fail(f"{turn.collective} of {turn.bytes} B: connection {rank}: {error}")
            if words[0] != "ok":
                self.fail(f"{turn.collective} of {turn.bytes} B: {' '.join(words[1:])}")
            elapsed_ns, bad = (int(word) for word in words[1].split())
            slowest_ns, wrong = max(slowest_ns, elapsed_ns), wrong + bad
        if wrong:
            self.fail(f"{turn.collective} of {turn.bytes} B: {wrong} elements are wrong")
        return slowest_ns * 1e-9 / turn.iterations
