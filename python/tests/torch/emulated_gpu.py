"""A torch device "emulated" in place of "cuda" (emulated_gpu.cpp), for the ranks of tests, which load it after they were forked.

It is built from that and from the emulated driver. Tests that need it are skipped where there are no sources or no compiler.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import ModuleType

import pytest
import torch

KIND = "emulated"
_ROOT = Path(__file__).parents[3]
_DRIVER, _KERNELS = _ROOT / "tests/cuda/fake_cuda", _ROOT / "src/engine/cuda"
_SOURCES = [Path(__file__).with_suffix(".cpp"), _DRIVER / "fake_cuda.cpp"]
_TORCH = Path(torch.__file__).parent
_VERSION = tuple(map(int, torch.__version__.split(".")[:2]))


def need() -> None:
    """Skips the test where there can be no such device; else builds its library, once for these sources."""
    if not _DRIVER.exists():
        pytest.skip("the sources of the emulated driver are not here")
    if _VERSION != (2, 13):
        pytest.skip("the emulated device is written against the C++ of torch 2.13")
    if not shutil.which("g++"):
        pytest.skip("no g++, which builds the emulated device")
    library()


@functools.cache
def library() -> Path:
    sources = b"".join(each.read_bytes() for each in [*_SOURCES, *sorted([*_DRIVER.glob("*.h"), *_KERNELS.glob("*.h")])])
    of = hashlib.sha256(sources + torch.__version__.encode() + str(_TORCH).encode()).hexdigest()[:16]
    at = Path(tempfile.gettempdir()) / f"horing-emulated-gpu-{os.getuid()}-{of}.so"
    if not at.exists() or at.stat().st_uid != os.getuid():
        new = at.with_suffix(f".{os.getpid()}")
        built = subprocess.run(["g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-w", f"-I{_TORCH}/include", f"-I{_ROOT}/src",
                                f"-I{_ROOT}/include", f"-I{_DRIVER.parent}", "-o", new, *_SOURCES,
                                f"-L{_TORCH}/lib", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{_TORCH}/lib", "-Wl,-soname,libcuda.so.1"],
                               capture_output=True, text=True)
        assert built.returncode == 0, built.stderr[-4000:]
        new.rename(at)
    return at


class Stream(torch.Stream):
    """As torch.cuda.Stream."""

    @property
    def cuda_stream(self) -> int:
        return _library.emulatedStream(self.device_index, self.stream_id) or 0


def current_stream(device=None) -> Stream:
    stream = torch.accelerator.current_stream(device)
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


@contextlib.contextmanager
def on_stream(stream: torch.Stream):
    """As torch.cuda.stream: its GPU is the current one, also for a default stream."""
    with torch.accelerator.device_index(stream.device_index), stream:
        yield


@contextlib.contextmanager
def hold(stream: torch.Stream):
    """The stream goes no further until this ends."""
    gate = ctypes.c_int(0)
    _gates.append(gate)
    _library.emulatedHold(stream.device_index, stream.stream_id, ctypes.byref(gate))
    try:
        yield
    finally:
        gate.value = 1


@contextlib.contextmanager
def recording(stream: torch.Stream):
    """The stream records a graph until this ends."""
    handle, graph = ctypes.c_void_p(stream.cuda_stream), ctypes.c_void_p()
    assert _library.cuStreamBeginCapture_v2(handle, 1) == 0  # of this thread
    try:
        yield
    finally:
        assert _library.cuStreamEndCapture(handle, ctypes.byref(graph)) == 0


def load() -> None:
    """Makes the device known to torch, and to horing as a GPU of CUDA."""
    global _library
    os.environ["HORING_GPU_PATH"] = "staged"  # the library's kernels for collectives are not here
    _library = ctypes.CDLL(str(library()), mode=ctypes.RTLD_GLOBAL)
    _library.emulatedStream.argtypes, _library.emulatedStream.restype = [ctypes.c_int, ctypes.c_int64], ctypes.c_void_p
    _library.emulatedHold.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_void_p]
    _library.emulatedLoadKernels()
    torch.utils.rename_privateuse1_backend(KIND)
    module = ModuleType(f"torch.{KIND}")
    module.Stream, module.Event, module.stream, module.current_stream = Stream, torch.Event, on_stream, current_stream
    module.is_current_stream_capturing = lambda: current_stream().is_capturing()
    module.is_available = module.is_initialized = lambda: True
    module._is_in_bad_fork = lambda: False
    module.device_count, module.current_device = lambda: 4, torch.accelerator.current_device_index
    module.set_device, module.synchronize = torch.accelerator.set_device_index, torch.accelerator.synchronize
    module.manual_seed_all = module.manual_seed = lambda seed: None
    module.get_rng_state, module.set_rng_state = lambda device=None: torch.get_rng_state(), lambda state, device=None: None
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    torch._register_device_module(KIND, module)
    torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_storage=True)
    from horing.torch import devices

    devices.KINDS.append(KIND)


_gates: list = []
_library = None
