"""The libraries of the comparison: how each is started with its defaults, on one node or several. A line more in LIBRARIES
is a library, or a setting of one, more."""
import os
import secrets
import socket
import sys
from pathlib import Path
from typing import NamedTuple

from nodes import FOLDER_VARIABLE


class Job(NamedTuple):
    """A job: `ranks` in blocks over `nodes`, whose programs are in `bin_folder`."""
    nodes: int
    ranks: int
    interface: str  # that leads to the other nodes; "lo" with one node
    bin_folder: str
    folder: str  # sockets and files of the run

    def ranks_of_a_node(self):
        return self.ranks // self.nodes

    def crowded(self):
        return self.ranks > os.cpu_count()


class Start(NamedTuple):
    """One program to start on a node."""
    node: int
    command: list
    environment: dict


def shell(job):
    return str(Path(__file__).resolve().parent / "nodes.py")


def rank_by_rank(job, program, conductor, environment):
    """One program for each rank, which gets rank and size from the variables of torchrun and horing-run."""
    starts = []
    for rank in range(job.ranks):
        node, local = divmod(rank, job.ranks_of_a_node())
        numbers = {"RANK": rank, "WORLD_SIZE": job.ranks, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": job.ranks_of_a_node()}
        starts.append(Start(node, [os.path.join(job.bin_folder, program), conductor],
                            {**{key: str(value) for key, value in numbers.items()}, **environment}))
    return starts


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def horing(job, conductor, settings):
    """Between nodes horing-run gives the rendezvous address; on one node each of several teams is a separate job."""
    own = {}
    if job.nodes == 1:
        own = {"HORING_ROOT": f"127.0.0.1:{free_port()}", "HORING_RUN_SECRET": secrets.token_hex(32)}
    return rank_by_rank(job, "peer_horing", conductor, {**own, **settings})


def gloo(job, conductor, settings):
    store = os.path.join(job.folder, "gloo")
    os.makedirs(store, exist_ok=True)
    return rank_by_rank(job, "peer_gloo", conductor, {"GLOO_STORE": store, "GLOO_INTERFACE": job.interface, **settings})


def openmpi(job, conductor, settings):
    hosts = ",".join(f"node{node}:{job.ranks_of_a_node()}" for node in range(job.nodes))
    mca = {"btl": "tcp,self,vader", "pml": "ob1", "btl_tcp_if_include": job.interface, "oob_tcp_if_include": job.interface,
           # More ranks than cores: polling ranks must let others run. mpirun sees only the ranks of each node.
           "mpi_yield_when_idle": "1" if job.crowded() else "0", **settings}
    if job.nodes > 1:
        mca["plm_rsh_agent"] = f"{sys.executable} {shell(job)} shell"
    options = [word for key, value in mca.items() for word in ("--mca", key, value)]
    where = ["--host", hosts] if job.nodes > 1 else []
    return [Start(0, ["mpirun.openmpi", "-np", str(job.ranks), "--oversubscribe", *where, *options,
                      os.path.join(job.bin_folder, "peer_openmpi"), conductor],
                  {FOLDER_VARIABLE: job.folder, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})]


def mpich(job, conductor, settings):
    hosts = ",".join(f"node{node}:{job.ranks_of_a_node()}" for node in range(job.nodes))
    where, environment = [], dict(settings)
    if job.crowded():
        environment["PEERS_YIELD"] = "1"  # see mpich_yield.cpp
    if job.nodes > 1:
        launcher = os.path.join(job.folder, "launcher")
        Path(launcher).write_text(f'#!/bin/sh\nexec {sys.executable} {shell(job)} shell "$@"\n', encoding="utf-8")
        os.chmod(launcher, 0o700)
        where = ["-hosts", hosts, "-launcher", "ssh", "-launcher-exec", launcher, "-iface", job.interface]
        environment["UCX_NET_DEVICES"] = job.interface
    return [Start(0, ["mpiexec.hydra", "-n", str(job.ranks), *where, os.path.join(job.bin_folder, "peer_mpich"), conductor],
                  {FOLDER_VARIABLE: job.folder, **environment})]


class Library(NamedTuple):
    name: str
    program: str
    start: callable
    settings: dict
    nodes: range  # for how many it is meant


ANY, ONE, SEVERAL = range(1, 1 << 20), range(1, 2), range(2, 1 << 20)
LIBRARIES = [
    Library("horing", "peer_horing", horing, {}, ANY),
    # Buffers that the ranks of a node read in place; compared with the memory's limit, not with the others.
    Library("horing MemAlloc", "peer_horing", horing, {"PEERS_MEMALLOC": "1"}, ONE),
    Library("Open MPI tuned", "peer_openmpi", openmpi, {}, ANY),
    # HAN is Open MPI's hierarchy of algorithms; with one node it steps aside.
    Library("Open MPI HAN", "peer_openmpi", openmpi, {"coll_han_priority": "100"}, SEVERAL),
    Library("MPICH", "peer_mpich", mpich, {}, ANY),
    Library("Gloo", "peer_gloo", gloo, {}, ANY),
]
OURS = "horing"
