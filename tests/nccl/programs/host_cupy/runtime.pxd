# In place of CuPy's binding of CUDA's runtime: what that of NCCL takes from it.
from libc.stdint cimport intptr_t

cdef extern from "cuda_runtime.h":
    ctypedef void* Stream "cudaStream_t"
    cdef int memcpyDeviceToDevice "cudaMemcpyDeviceToDevice"

cpdef memcpyAsync(intptr_t dst, intptr_t src, size_t size, int kind, intptr_t stream)
