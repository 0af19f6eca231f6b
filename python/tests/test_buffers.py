"""What horing.view makes of other libraries' objects."""

import array
import ctypes
import gc
import mmap
import sys

import numpy as np
import pytest

import horing


@pytest.mark.parametrize("dtype, name", [("i1", "int8"), ("u1", "uint8"), ("i4", "int32"), ("u4", "uint32"), ("i8", "int64"),
                                         ("u8", "uint64"), ("f2", "float16"), ("f4", "float32"), ("f8", "float64")])
def test_types_that_can_be_reduced(dtype, name):
    array_ = np.zeros((3, 5), dtype)
    found = horing.view(array_)
    assert (found.address, found.count, found.kind.dtype, found.writable, found.on_gpu) == (
        array_.ctypes.data, 15, horing.DType[name], True, False)


@pytest.mark.parametrize("dtype, size", [("i2", 2), ("u2", 2), ("c8", 8), ("c16", 16), ("M8[s]", 8), (">f4", 4), ("S5", 5),
                                         ("U3", 12), ([("a", "i4"), ("b", "f8")], 12), ("g", 16)])
def test_types_that_can_only_be_moved(dtype, size):
    found = horing.view(np.zeros(7, dtype))
    assert found.kind.dtype is None and found.kind.in_moves() == (horing.DType.uint8, size) and found.count == 7
    with pytest.raises(TypeError, match="moved but not reduced"):
        found.kind.check_reducible(horing.Op.SUM)


@pytest.mark.parametrize("dtype", ["O", [("a", "i4"), ("b", "O")]])
def test_python_objects_are_refused(dtype):
    with pytest.raises(TypeError, match="pickle"):
        horing.view(np.zeros(3, dtype))


@pytest.mark.parametrize("make", [lambda: bytearray(8), lambda: memoryview(bytearray(8)), lambda: array.array("B", bytes(8)),
                                  lambda: (ctypes.c_ubyte * 8)(), lambda: mmap.mmap(-1, 8), lambda: horing.mem_alloc(8)])
def test_makers_of_bytes(make):
    found = horing.view(make())
    assert (found.count, found.kind.name, found.writable) == (8, "uint8", True)


def test_read_only():
    assert not horing.view(b"text").writable
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    assert not horing.view(frozen).writable


@pytest.mark.parametrize("given", [np.zeros(8)[::2], np.zeros((4, 4))[:, :2], np.asfortranarray(np.zeros((3, 2))),
                                   np.zeros((4, 4)).T[:2], memoryview(bytearray(8))[::2]])
def test_what_is_not_contiguous_is_refused(given):
    with pytest.raises(ValueError, match="not contiguous"):
        horing.view(given)


def test_scalars_and_nothing():
    assert horing.view(np.zeros((), "f4")).count == 1
    assert horing.view(np.zeros((0, 3), "f4")).count == 0
    assert horing.view(bytearray()).count == 0


@pytest.mark.parametrize("given", [None, 3, [1, 2], "text", object()])
def test_what_has_no_memory_is_refused(given):
    with pytest.raises(TypeError, match="no memory|has no"):
        horing.view(given)


def test_dtype_says_what_bytes_are():
    found = horing.view(np.zeros(6, "u2"), "bfloat16")
    assert (found.kind.dtype, found.count) == (horing.DType.bfloat16, 6)
    assert horing.view(bytearray(8), horing.DType.float32).count == 2
    assert horing.view(bytearray(8), np.float64).count == 1
    assert horing.view(bytearray(8), np.dtype("float16")).count == 4
    with pytest.raises(ValueError, match="whole number"):
        horing.view(bytearray(7), "float32")
    with pytest.raises(TypeError, match="complex64"):
        horing.view(bytearray(8), "complex64")


def test_a_view_holds_its_object():
    given = bytearray(8)
    found = horing.view(given)
    with pytest.raises(BufferError):
        given.append(1)
    del found
    given.append(1)
    array_ = np.zeros(8)
    before = sys.getrefcount(array_)
    found = horing.view(array_)
    assert sys.getrefcount(array_) == before + 1
    del found
    gc.collect()
    assert sys.getrefcount(array_) == before


class OnlyDLPack:
    """An array that speaks nothing else. `versioned` as DLPack 1.0."""

    def __init__(self, array_, versioned=True):
        self.array, self.versioned = array_, versioned

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        if not self.versioned:
            if options:
                raise TypeError("no such option")
            return self.array.__dlpack__()
        return self.array.__dlpack__(**options)


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack(versioned):
    array_ = np.arange(24, dtype="f4").reshape(4, 6)
    found = horing.view(OnlyDLPack(array_[1:], versioned))
    assert (found.address, found.count, found.kind.name) == (array_[1:].ctypes.data, 18, "float32")
    before = sys.getrefcount(array_)
    again = horing.view(OnlyDLPack(array_, versioned))
    del again
    gc.collect()
    assert sys.getrefcount(array_) == before, "the capsule was not given back"
    with pytest.raises(ValueError, match="not contiguous"):
        horing.view(OnlyDLPack(array_[:, 1:], versioned))


@pytest.mark.parametrize("code, bits, name", [(4, 16, "bfloat16"), (10, 8, "float8_e4m3"), (12, 8, "float8_e5m2"),
                                              (2, 32, "float32"), (6, 8, "bool"), (5, 64, "complex64"), (0, 16, "int16")])
def test_types_of_dlpack(code, bits, name):
    from horing import _kinds

    kind = _kinds.of_dlpack(code, bits, 1)
    assert (kind.name, kind.bytes) == (name, bits // 8)


class FakeTensor:
    """What a tensor of PyTorch says of itself; the real ones are in tests/torch."""

    def __init__(self, array_, dtype="torch.float32", device="cpu", conjugate=False):
        self.array, self.dtype, self.conjugate = array_, dtype, conjugate
        self.device = type("device", (), {"type": device, "__str__": lambda _: device})()

    def data_ptr(self):
        return self.array.ctypes.data

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def is_contiguous(self):
        return self.array.flags.c_contiguous

    def is_conj(self):
        return self.conjugate

    def is_neg(self):
        return False


def test_tensors():
    array_ = np.zeros((3, 4), "u2")
    found = horing.view(FakeTensor(array_, "torch.bfloat16"))
    assert (found.address, found.count, found.kind.dtype, found.on_gpu) == (
        array_.ctypes.data, 12, horing.DType.bfloat16, False)
    assert horing.view(FakeTensor(array_, "torch.float16", "cuda")).on_gpu
    assert horing.view(FakeTensor(np.zeros(3, "u1"), "torch.float8_e4m3fn")).kind.dtype is horing.DType.float8_e4m3
    assert horing.view(FakeTensor(np.zeros(3, "c8"), "torch.complex64")).kind.dtype is None
    with pytest.raises(ValueError, match="not contiguous"):
        horing.view(FakeTensor(array_.T))
    with pytest.raises(TypeError, match="meta"):
        horing.view(FakeTensor(array_, device="meta"))
    with pytest.raises(ValueError, match="resolve_conj"):
        horing.view(FakeTensor(np.zeros(3, "c8"), "torch.complex64", conjugate=True))


def OnlyInterface(name, interface):
    """An object that speaks nothing else."""
    return type("OnlyInterface", (), {name: interface})()


def test_array_interfaces():
    array_ = np.zeros((2, 3), "i4")
    found = horing.view(OnlyInterface("__array_interface__", array_.__array_interface__))
    assert (found.address, found.count, found.kind.name, found.on_gpu) == (array_.ctypes.data, 6, "int32", False)
    gpu = {"shape": (2, 3), "typestr": "<f2", "data": (4096, True), "version": 3, "strides": None}
    found = horing.view(OnlyInterface("__cuda_array_interface__", gpu))
    assert (found.address, found.count, found.kind.name, found.on_gpu, found.writable) == (4096, 6, "float16", True, False)
    gpu["strides"] = (2, 4)
    with pytest.raises(ValueError, match="not contiguous"):
        horing.view(OnlyInterface("__cuda_array_interface__", gpu))


def test_host_and_gpu_in_one_call_are_refused(on_ranks):
    gpu = OnlyInterface("__cuda_array_interface__", {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3})

    def call(comm):
        with pytest.raises(ValueError, match="on a GPU"):
            comm.all_reduce(np.zeros(4, "f4"), gpu)

    on_ranks(1, call)
