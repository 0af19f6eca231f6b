"""Two ranks under horing-run look at what joins and what separates them.

usage: link_probe.py send BYTES   rank 1 sends to rank 0, which prints "BYTES RATE" (Mbit/s)
       link_probe.py memory       each rank leaves a file in /dev/shm; after both have, each prints the files it sees
"""
import os
import socket
import sys
import time

rank = int(os.environ["RANK"])
host, port = os.environ["HORING_ROOT"].rsplit(":", 1)


def connect():
    """A connection between the two ranks; rank 0 listens."""
    if rank == 0:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
        listener.listen()
        listener.settimeout(30)
        return listener.accept()[0]
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection((host, int(port)), timeout=30)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def say(*words):
    """One write, so that the ranks' lines stay whole."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def send(size):
    peer = connect()
    peer.settimeout(30)
    if rank == 1:
        peer.recv(1)
        peer.sendall(bytes(size))
        return
    # Before the first byte can be on its way: what waited in buffers while nobody looked would seem faster than the link.
    begin = time.monotonic()
    peer.sendall(b"x")
    received = 0
    while received < size:
        data = peer.recv(1 << 20)
        if not data:
            break
        received += len(data)
    seconds = time.monotonic() - begin
    say(received, received * 8e-6 / seconds)


def memory():
    name = f"horing-probe-{os.environ['HORING_RUN_SECRET'][:8]}-{rank}"
    open("/dev/shm/" + name, "w").close()
    try:
        peer = connect()
        peer.settimeout(30)
        peer.sendall(b"x")
        peer.recv(1)  # the peer's file is there by now
        say(rank, *sorted(each.split("-")[-1] for each in os.listdir("/dev/shm") if each.startswith(name[:-2])))
        peer.sendall(b"x")
        peer.recv(1)  # and the peer has looked
    finally:
        os.unlink("/dev/shm/" + name)


if sys.argv[1] == "send":
    send(int(sys.argv[2]))
else:
    memory()
