"""In place of CuPy around its binding of NCCL: arrays are NumPy's, GPUs the processors, and every stream is NCCL's NULL."""
import os
import sys
import types

import numpy
import pytest
from cupy_backends.cuda.libs import nccl

GPUS = int(os.environ.get("HOST_GPUS", 8))


class ndarray(numpy.ndarray):
    @property
    def data(self):
        return types.SimpleNamespace(ptr=self.ctypes.data)


def made_by(function):
    return lambda *arguments, **keywords: function(*arguments, **keywords).view(ndarray)


class Device:
    def __init__(self, number):
        assert 0 <= number < GPUS

    def use(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def multi_gpu(number):
    return pytest.mark.skipif(GPUS < number, reason=f"needs {number} GPUs")


array, arange, zeros, empty_like, zeros_like = map(
    made_by, (numpy.array, numpy.arange, numpy.zeros, numpy.empty_like, numpy.zeros_like))
allclose, int8, int64 = numpy.allclose, numpy.int8, numpy.int64
null = types.SimpleNamespace(ptr=0, synchronize=lambda: None)
cuda, testing = types.ModuleType("cupy.cuda"), types.ModuleType("cupy.testing")
vars(cuda).update(nccl=nccl, Device=Device, Stream=types.SimpleNamespace(null=null))
vars(testing).update(multi_gpu=multi_gpu, assert_array_equal=numpy.testing.assert_array_equal)
sys.modules.update({"cupy.cuda": cuda, "cupy.cuda.nccl": nccl, "cupy.testing": testing})
__path__ = []
