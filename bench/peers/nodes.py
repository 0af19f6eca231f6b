#!/usr/bin/env python3
"""Starting programs on nodes: horing-run holds the nodes, an agent on each starts the requested programs.

    horing-run -n 2 --nodes 2 -- python3 nodes.py agent FOLDER      an agent on each node, at FOLDER/nodeK.sock
    python3 nodes.py shell [-OPTION...] nodeK COMMAND...            what MPI launchers call instead of ssh

A named socket can be reached from every node, whatever its network. Files and processes stay private to the user: who
may open the folder may start programs.
"""
import array
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time

FOLDER_VARIABLE = "HORING_PEERS_FOLDER"
LONGEST_REQUEST = 1 << 20
STANDARD_FILES = 3


def agent_path(folder, node):
    return os.path.join(folder, f"node{node}.sock")


def end_group(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


# ---- the agent: one for each node ----


def receive_request(connection):
    """(request, files) of one JSON text that ends in a newline, with the caller's standard files attached to its first byte."""
    data, files, _, _ = socket.recv_fds(connection, 1 << 16, STANDARD_FILES)
    while not data.endswith(b"\n"):
        more = connection.recv(1 << 16)
        if not more or len(data) > LONGEST_REQUEST:
            raise ConnectionError("half a request")
        data += more
    return json.loads(data), files


def serve(connection, children, starting):
    """Runs one program. Its end is reported to the caller, and the caller's end ends it. A request without a command lasts as long
    as the caller, and then everything ends."""
    with connection:
        try:
            request, files = receive_request(connection)
        except (ConnectionError, ValueError):
            return
        if not request["command"]:
            connection.recv(1)
            os.kill(os.getpid(), signal.SIGTERM)
            return
        try:
            with starting:
                child = subprocess.Popen(request["command"], env={**os.environ, **request["environment"]},
                                         stdin=files[0], stdout=files[1], stderr=files[2], process_group=0)
                children.add(child)
        except OSError as error:
            os.write(files[2], f"nodes.py: {error}\n".encode())
            connection.sendall(b"127\n")
            return
        finally:
            for file in files:
                os.close(file)
        ended = os.pidfd_open(child.pid)
        select.select([ended, connection], [], [])
        gone = not select.select([ended], [], [], 0)[0]
        if gone:
            end_group(child)
        code = child.wait()
        os.close(ended)
        end_group(child)
        children.discard(child)
        if not gone:
            try:
                connection.sendall(f"{code if code >= 0 else 128 - code}\n".encode())
            except OSError:
                pass


def agent(folder):
    children = set()
    starting = threading.Lock()  # what has been started, but is not among the children yet, would outlive this agent

    def finish(*_):
        starting.acquire()
        for child in list(children):
            end_group(child)
        os._exit(0)

    signal.signal(signal.SIGTERM, finish)
    listener = socket.socket(socket.AF_UNIX)
    path = agent_path(folder, int(os.environ["RANK"]))
    listener.bind(path + ".new")
    listener.listen(64)
    os.rename(path + ".new", path)  # appears when it works
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, children, starting), daemon=True).start()


# ---- the callers ----


class Program:
    """A program on a node, started by its agent. Closing the connection ends it."""

    def __init__(self, folder, node, command, environment=None, files=None):
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(agent_path(folder, node))
        text = json.dumps({"command": command, "environment": environment or {}}) + "\n"
        handles = array.array("i", files or [0, 1, 2])
        sent = self.connection.sendmsg([text.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handles)])
        if rest := text.encode()[sent:]:  # sending nothing fails, too, where the program has ended and its agent has hung up
            self.connection.sendall(rest)

    def fileno(self):
        return self.connection.fileno()

    def wait(self, timeout_s=None):
        """The exit code; None if it has not ended by then."""
        self.connection.settimeout(timeout_s)
        try:
            answer = self.connection.recv(16)
        except TimeoutError:
            return None
        return int(answer) if answer else 255

    def end(self):
        self.connection.close()


def shell(arguments):
    """ssh's stand-in: `shell [-OPTION...] HOST COMMAND...`."""
    while arguments and arguments[0].startswith("-"):
        arguments.pop(0)
    host, command = arguments[0], " ".join(arguments[1:])
    program = Program(os.environ[FOLDER_VARIABLE], int(host.removeprefix("node")), ["/bin/sh", "-c", command])
    return program.wait()


class Nodes:
    """Emulated nodes, or with `count` 1 and no rate this machine itself. A context manager."""

    START_S, END_S = 30, 10

    def __init__(self, horing_run, folder, count, rate_mbit):
        self.folder, self.count, self.holds = folder, count, []
        spread = ["--nodes", str(count), "--rate", str(rate_mbit)] if rate_mbit else []
        self.process = subprocess.Popen([horing_run, "-n", str(count), *spread, "--", sys.executable, __file__, "agent",
                                         folder], stdin=subprocess.DEVNULL)

    def __enter__(self):
        deadline = time.monotonic() + self.START_S
        while not all(os.path.exists(agent_path(self.folder, node)) for node in range(self.count)):
            if self.process.poll() is not None:
                raise RuntimeError(f"horing-run ended with {self.process.returncode} while the nodes were made")
            if time.monotonic() > deadline:
                self.__exit__()
                raise RuntimeError(f"the nodes were not there within {self.START_S} s")
            time.sleep(0.02)
        self.holds = [Program(self.folder, node, []) for node in range(self.count)]
        return self

    def __exit__(self, *_):
        for hold in self.holds:
            hold.end()
        try:
            self.process.wait(self.END_S if self.holds else 0)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()
        for node in range(self.count):
            try:
                os.unlink(agent_path(self.folder, node))
            except FileNotFoundError:
                pass

    def start(self, node, command, environment=None, log=2):
        return Program(self.folder, node, command, environment, [0, log, log])


if __name__ == "__main__":
    sys.exit(agent(sys.argv[2]) if sys.argv[1] == "agent" else shell(sys.argv[2:]))
