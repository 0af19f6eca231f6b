"""What lets PyTorch's distributed tests run on a backend of one's choice, on the CPU, in a copy of pytorch/pytorch left as it is.

Tests that ask for Gloo, or for no backend by name, get the chosen one. Tests written for GPUs get the CPU in place of each.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import re
import sys
import tempfile
from pathlib import Path

# In a test's source: what torch's own helpers were called in earlier versions; GPUs and their backend.
_INSTEAD = (
    ("CUDAInitMode", "DEVICEInitMode"), ("CUDA_BEFORE", "DEVICE_BEFORE"), ("CUDA_AFTER", "DEVICE_AFTER"), ("CUDA_NEVER", "DEVICE_NEVER"),
    ("cuda_init_mode", "device_init_mode"), ("test_compiled_fsdp", "compiled_fsdp_test"),
    ("MultiProcContinousTest", "MultiProcContinuousTest"),
    (".cuda()", ".cpu()"), ('"cuda"', '"cpu"'), ("'cuda'", "'cpu'"), ('"nccl"', '"gloo"'),
)
_PLACED = re.compile(r"(rank:[^/\s]+)/cuda(:(\d|\{[^}]*\}))?")
_INDEXED = re.compile(r"""f?["']cuda:(\{[^}]*\}|\d)["']|torch\.device\(\s*"cpu",[^()]*(\(\))?[^()]*\)""")


def preload() -> None:
    """What takes seconds to load, so that processes forked from this one have it."""
    import horing.torch  # noqa: F401
    import torch.distributed.tensor  # noqa: F401
    from torch.testing._internal import common_fsdp  # noqa: F401
    from torch.testing._internal.distributed._tensor import common_dtensor  # noqa: F401

    gc.freeze()  # what a collection in a rank would copy


def settle(backend: str, ranks: int) -> None:
    """Call this before a test is loaded. `ranks` is the number of ranks of tests that take one for each GPU."""
    folder = tempfile.mkdtemp()
    Path(folder, "barrier").touch()
    os.environ.update(THEIR_BACKEND=backend, BACKEND="gloo", WORLD_SIZE=str(ranks), TEMP_DIR=folder)  # which the tests of DDP want
    preload()
    _choose(backend)
    _fork_ranks()
    _pretend_devices(ranks)


def _choose(backend: str) -> None:
    """Where torch makes a group."""
    from torch.distributed import distributed_c10d as c10d

    make = c10d._new_process_group_helper

    def make_on_chosen(size, rank, ranks, wanted, *args, **kwargs):
        replaced = str(wanted) == "undefined" or "gloo" in str(wanted) or "nccl" in str(wanted)
        return make(size, rank, ranks, c10d.Backend(backend) if replaced else wanted, *args, **kwargs)

    c10d._new_process_group_helper = make_on_chosen


def _fork_ranks() -> None:
    """Ranks are forked from a process that has loaded torch: starting each anew takes seconds."""
    import torch.multiprocessing
    from torch.testing._internal import common_distributed as common

    forking = torch.multiprocessing.get_context("fork")
    common.MultiProcessTestCase._spawn_processes = lambda self: self._start_processes(forking.Process)
    torch.multiprocessing.set_start_method("fork", force=True)
    torch.multiprocessing.set_start_method = lambda *_, **__: None


def _pretend_devices(ranks: int) -> None:
    import torch
    from torch.testing._internal import common_distributed as common
    from torch.testing._internal import common_cuda, common_fsdp
    from torch.testing._internal.distributed._shard import sharded_tensor
    from torch.testing._internal.distributed._tensor import common_dtensor

    common_cuda.TEST_MULTIGPU = True
    common_fsdp.DEVICE_COUNT = common_fsdp.FSDPTestContinuous.world_size = ranks
    common.skip_if_lt_x_gpu = lambda *_, **__: lambda test: test
    common_dtensor.skip_unless_torch_gpu = lambda test: test
    sharded_tensor.with_comms.__defaults__ = (None, True, "gloo")
    common.requires_nccl = common.requires_accelerator_dist_backend = lambda *_, **__: lambda test: test
    for module in (torch.cuda, torch.accelerator, torch.cpu):
        module.device_count = lambda: ranks
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.device = contextlib.nullcontext
    _on_cpu(torch.nn.parallel.DistributedDataParallel, device_ids=None, output_device=None)
    _on_cpu(torch.distributed.fsdp.FullyShardedDataParallel, device_id=torch.device("cpu"))
    torch.distributed.rpc.TensorPipeRpcBackendOptions.set_device_map = lambda *_: None
    place = torch.distributed._remote_device.__init__
    torch.distributed._remote_device.__init__ = lambda self, where: place(self, _PLACED.sub(r"\1/cpu", where) if type(where) is str else where)
    for name in ("Event", "Stream", "stream", "current_stream"):
        setattr(torch.cuda, name, getattr(torch.cpu, name))
    for name in ("set_device", "synchronize", "empty_cache", "manual_seed", "manual_seed_all", "reset_peak_memory_stats", "_sleep"):
        setattr(torch.cuda, name, lambda *_, **__: None)


def _on_cpu(kind: type, **devices) -> None:
    """Lets it be made with these devices, whatever a test passes."""
    make = kind.__init__

    def made(self, *args, **kwargs):
        make(self, *args[:1], **dict(zip(list(inspect.signature(make).parameters)[2:], args[1:])) | kwargs | devices)

    kind.__init__ = functools.wraps(make)(made)


def _take_cpu_for_gpus() -> None:
    """Call this after a test is loaded: TorchScript, which compiles while it is, wants torch's own functions."""
    import torch

    torch.nn.Module.cuda = torch.Tensor.cuda = lambda self, *_, **__: self
    for owner in (torch.nn.Module, torch.Tensor):
        _take_cpu(owner, "to", positional=True)
    for name in ("arange", "as_tensor", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "tensor", "zeros"):
        _take_cpu(torch, name)


def _take_cpu(owner, name: str, positional: bool = False) -> None:
    """For a GPU that a function is given as device=, or as any argument, by number or by name."""
    run = getattr(owner, name)

    def on_cpu(*args, **kwargs):
        if "device" in kwargs:
            kwargs["device"] = _instead_of(kwargs["device"])
        return run(*args[:1], *map(_instead_of, args[1:]), **kwargs) if positional else run(*args, **kwargs)

    setattr(owner, name, on_cpu)


def _instead_of(argument):
    import torch

    return "cpu" if type(argument) is int or isinstance(argument, (str, torch.device)) and str(argument).startswith("cuda") else argument


class _OnCpu(importlib.machinery.SourceFileLoader):
    def get_data(self, path: str) -> bytes:
        source = super().get_data(path)
        if not path.endswith(".py"):
            return source
        text = source.decode()
        for name, instead in _INSTEAD:
            text = text.replace(name, instead)
        text = _PLACED.sub(r"\1/cpu", text)
        return _INDEXED.sub(lambda found: 'torch.device("cpu")' if found[0].startswith("torch") else '"cpu"', text).encode()

    def path_stats(self, path):
        raise OSError("changed as it is loaded, so never from a cache")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, folders: list[Path]):
        self._folders = folders

    def find_spec(self, name, path=None, target=None):
        for folder in self._folders:
            file = folder / f"{name}.py"
            if file.is_file():
                return importlib.util.spec_from_file_location(name, file, loader=_OnCpu(name, str(file)))
        return None


def load(file: Path):
    """The module of a test."""
    if file.name == "c10d_backend_common.py":
        os.environ["THEIR_COPY"] = str(file.parents[2])
        return importlib.import_module("their_suites")
    test = next(parent for parent in file.parents if parent.name == "test")
    sys.path.insert(0, str(test.parent))
    sys.meta_path.insert(0, _Finder([file.parent, test / "distributed"]))
    module = importlib.import_module(file.stem)
    _take_cpu_for_gpus()
    return module
