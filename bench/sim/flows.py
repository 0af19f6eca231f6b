#!/usr/bin/env python3
"""How TCP connections that meet at a node's link share it, beside two models of it.

    python3 bench/sim/flows.py --bin build/release/bin [--seconds 3] > bench/results/sim/flows.txt

Emulated nodes of one rank, plain sockets: node 0 receives from all others at once, or sends to all others at once, while their own links
allow each of them a different rate. Beside the measured rates stands what max-min fairness gives (what a slower connection cannot use, the
others get), and what equal parts give (it is lost). Needs what horing-run needs for emulated nodes. Python 3 and nothing else.
"""
import argparse
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

# Mbit/s of node 0, then of the others.
CASES = [(100, 20, 100), (100, 25, 100, 100), (100, 10, 40, 100), (100, 50, 50, 100, 100)]
PIECE = 1 << 16
SETTLING_S = 1.0
# What reaches a program of what a link carries: headers of packets of 9000 bytes.
GOODPUT = 8948 / 9014


def max_min(capacity, limits):
    """The parts of those who may take up to their limits."""
    parts, left = {}, capacity
    for at, limit in sorted(enumerate(limits), key=lambda pair: pair[1]):
        parts[at] = min(limit, left / (len(limits) - len(parts)))
        left -= parts[at]
    return [parts[at] for at in range(len(limits))]


def send(connection, until):
    piece = bytes(PIECE)
    try:
        while time.monotonic() < until:
            connection.sendall(piece)
    except OSError:  # the receiver has seen enough
        pass


def receive(connection, seconds):
    """Mbit/s, once the connections have settled."""
    begin, got = None, 0
    deadline = time.monotonic() + SETTLING_S + seconds
    while (now := time.monotonic()) < deadline:
        more = len(connection.recv(PIECE))
        if more == 0:
            break
        if begin is None and now > deadline - seconds:
            begin, got = now, 0
        got += more
    return got * 8e-6 / (time.monotonic() - begin) if begin else 0.0


def rank(direction, seconds):
    """One of horing-run's ranks. All rates are written by whoever receives."""
    number, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if number == 0:
        with socket.create_server(where, backlog=size) as server:
            peers = {}
            while len(peers) < size - 1:
                connection, _ = server.accept()
                connection.settimeout(60)
                peers[int.from_bytes(connection.recv(1), "big")] = connection
        for connection in peers.values():
            connection.sendall(b"g")  # all begin at once
        work = [(peer, connection) for peer, connection in sorted(peers.items())]
    else:
        limit = time.monotonic() + 30
        while True:
            try:
                connection = socket.create_connection(where, timeout=60)
                break
            except ConnectionRefusedError:
                if time.monotonic() > limit:
                    raise
                time.sleep(0.05)
        connection.sendall(bytes([number]))
        connection.recv(1)
        work = [(number, connection)]
    if (direction == "receives") == (number == 0):
        threads = [threading.Thread(target=lambda peer=peer, line=line: print(f"rate {peer} {receive(line, seconds):.3f}", flush=True))
                   for peer, line in work]
    else:
        until = time.monotonic() + SETTLING_S + seconds + 0.5
        threads = [threading.Thread(target=send, args=(line, until)) for _, line in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure(program, direction, rates, seconds):
    command = [program, "-n", str(len(rates)), "--nodes", str(len(rates)), "--rate", ",".join(map(str, rates)), "--timeout", "120", "--",
               sys.executable, str(Path(__file__).resolve()), "--rank", direction, "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"flows.py: {' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found = dict(line.split("rate ")[1].split() for line in done.stdout.splitlines() if "rate " in line)
    return [float(found[str(peer)]) for peer in range(1, len(rates))]


def main():
    parser = argparse.ArgumentParser(description="How TCP connections share a node's link.")
    parser.add_argument("--bin", default="build/release/bin", type=Path, help="folder of the programs")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        return rank(arguments.rank, arguments.seconds)
    print("# TCP connections that meet at node 0's link, Mbit/s of data for each other node: python3 bench/sim/flows.py")
    for direction in ("receives", "sends"):
        for rates in CASES:
            measured = measure(arguments.bin / "horing-run", direction, rates, arguments.seconds)
            own, others = rates[0] * GOODPUT, [rate * GOODPUT for rate in rates[1:]]
            equal = [min(other, own / len(others)) for other in others]

            def text(values):
                return " ".join(f"{value:5.1f}" for value in values) + f" = {sum(values):5.1f}"
            print(f"node 0 at {rates[0]} {direction:8}, others at {', '.join(map(str, rates[1:])):16}: measured {text(measured)}; max-min "
                  f"{text(max_min(own, others))}; equal parts {text(equal)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
