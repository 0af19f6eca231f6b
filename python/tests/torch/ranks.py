"""Runs a function as the ranks of a job: each in a forked process, under a deadline."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import pickle
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import wait as wait_for_any

import torch
import torch.distributed as dist

import emulated_gpu
import horing.torch  # noqa: F401

_fork = multiprocessing.get_context("fork")
torch.set_num_threads(1)
on_gpu = False  # whether tensors that ranks make are on an emulated GPU, unless they say where


@dataclass
class Outcome:
    """How a rank ended: with a value, an exception (its type's name and text), or a process that just ended."""

    value: object = None
    error: str | None = None
    exit_code: int | None = None
    seconds: float = 0.0


def kind() -> str:
    """Of the device on which ranks make tensors."""
    return emulated_gpu.KIND if on_gpu else "cpu"


def run(size: int, body: Callable, timeout: float = 40, group: bool = True, group_timeout: float = 20) -> list[Outcome]:
    """body(rank, size) on each rank, in a group of the backend unless `group` is False. Fails at the deadline, with all stacks."""
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(size):
            receiver, sender = _fork.Pipe(duplex=False)
            process = _fork.Process(target=_be, args=(body, rank, size, folder, sender, group, group_timeout))
            process.start()
            sender.close()
            pipes.append(receiver)
            processes.append(process)
        begin = time.monotonic()
        try:
            return _collect(pipes, processes, begin + timeout, folder)
        finally:
            for process in processes:
                if process.is_alive():
                    process.kill()
                process.join()


def passed(outcomes: list[Outcome]) -> list:
    """The ranks' values; fails if one of them did not return one."""
    errors = [f"rank {rank}: {each.error or f'exit code {each.exit_code}'}" for rank, each in enumerate(outcomes)
              if each.error or each.exit_code]
    assert not errors, "\n".join(errors)
    return [each.value for each in outcomes]


def check(size: int, body: Callable, **options) -> list:
    return passed(run(size, body, **options))


def _collect(pipes, processes, deadline, folder) -> list[Outcome]:
    outcomes = [Outcome() for _ in processes]
    waiting = {process.sentinel: rank for rank, process in enumerate(processes)}
    waiting |= {pipe: rank for rank, pipe in enumerate(pipes)}
    while waiting:
        ready = wait_for_any(list(waiting), timeout=max(0.0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError("ranks did not end in time:\n" + _stacks(processes, folder))
        for each in ready:
            rank = waiting.pop(each)
            if isinstance(each, int):
                processes[rank].join()
                outcomes[rank].exit_code = processes[rank].exitcode
                continue
            try:
                outcomes[rank].value, outcomes[rank].error, outcomes[rank].seconds = pickle.loads(each.recv_bytes())
            except EOFError:  # it ended without a word
                pass
    return outcomes


def _stacks(processes, folder) -> str:
    for process in processes:
        if process.is_alive():
            os.kill(process.pid, signal.SIGUSR1)
    time.sleep(0.5)
    files = sorted(name for name in os.listdir(folder) if name.startswith("stack"))
    return "\n".join(f"--- {name}\n{open(os.path.join(folder, name)).read()}" for name in files)


def _be(body, rank, size, folder, sender, group, group_timeout) -> None:
    gc.freeze()  # no collection visits, and so copies, the parent's objects
    # Makes torch's pool of threads anew, which a fork leaves behind: where two threads of autograd do so at once, the process is aborted.
    torch.set_num_threads(1)
    stack = open(os.path.join(folder, f"stack{rank}"), "w")
    faulthandler.register(signal.SIGUSR1, file=stack, all_threads=True)
    begin = time.monotonic()
    value, error = None, None
    try:
        if on_gpu:
            emulated_gpu.load()
            torch.set_default_device(emulated_gpu.KIND)
        if group:
            join(rank, size, folder, group_timeout)
            value = body(rank, size)
            dist.destroy_process_group()
        else:
            value = body(rank, size, folder)
    except BaseException:
        error = traceback.format_exc()
    sender.send_bytes(pickle.dumps((value, error, time.monotonic() - begin)))
    sender.close()


def join(rank: int, size: int, folder: str, timeout: float = 20, name: str = "store", backend: str = "horing") -> None:
    """init_process_group through a file in the folder."""
    if on_gpu and backend == "horing":
        backend = f"cpu:horing,{emulated_gpu.KIND}:horing"
    store = dist.FileStore(os.path.join(folder, name), size)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=timeout))
