is_hip = False


cpdef memcpyAsync(intptr_t dst, intptr_t src, size_t size, int kind, intptr_t stream):
    raise NotImplementedError("only for NCCL 2.1 and older")
