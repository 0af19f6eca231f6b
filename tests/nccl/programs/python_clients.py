"""Python's clients of NCCL, each rank a process, on arrays of NumPy: python_clients.py CLIENT LIBRARY_FOLDER SOURCES RANKS

CLIENT: sglang: SGLang's wrapper of vLLM's kind, with no PyTorch behind it. vllm: vLLM's, of which SOURCES/vllm has some files;
it finds the library by VLLM_NCCL_SO_PATH.
nccl4py: NVIDIA's binding, beneath its part for memory of GPUs.
"""
import ctypes
import importlib.util
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
from vllm_client import Vllm

COUNT = 1000


def sum_of(ranks):
    return ranks * (ranks + 1) // 2


class Sglang:
    def __init__(self, library):
        torch = types.ModuleType("torch")  # of which the wrapper's annotations speak
        torch.dtype = object
        torch.distributed = types.ModuleType("torch.distributed")
        torch.distributed.ReduceOp = object
        sys.modules.update({"torch": torch, "torch.distributed": torch.distributed})
        [place] = Path(np.__file__).parents[1].glob("sglang/srt/distributed/device_communicators/pynccl_wrapper.py")
        spec = importlib.util.spec_from_file_location("pynccl_wrapper", place)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.nccl = self.module.NCCLLibrary(library)

    def unique_id(self):
        return bytes(self.nccl.ncclGetUniqueId())

    def run(self, ranks, text, rank):
        nccl, kinds = self.nccl, self.module.ncclDataTypeEnum
        total = self.module.ncclRedOpTypeEnum.ncclSum
        comm = nccl.ncclCommInitRank(ranks, self.module.ncclUniqueId.from_buffer_copy(text), rank)
        own, one, every = np.full(COUNT, rank + 1, np.float32), np.zeros(COUNT, np.float32), np.zeros((ranks, COUNT), np.float32)
        nccl.ncclAllReduce(own.ctypes.data, one.ctypes.data, COUNT, kinds.ncclFloat32, total, comm, None)
        assert (one == sum_of(ranks)).all()
        nccl.ncclAllGather(own.ctypes.data, every.ctypes.data, COUNT, kinds.ncclFloat32, comm, None)
        assert (every == np.arange(1, ranks + 1)[:, None]).all()
        nccl.ncclReduceScatter(every.ctypes.data, one.ctypes.data, COUNT, kinds.ncclFloat32, total, comm, None)
        assert (one == ranks * (rank + 1)).all()
        nccl.ncclReduce(own.ctypes.data, one.ctypes.data, COUNT, kinds.ncclFloat32, total, ranks - 1, comm, None)
        assert rank != ranks - 1 or (one == sum_of(ranks)).all()
        nccl.ncclBroadcast(own.ctypes.data, one.ctypes.data, COUNT, kinds.ncclFloat32, ranks - 1, comm, None)
        assert (one == ranks).all()
        nccl.ncclGroupStart()
        nccl.ncclSend(own.ctypes.data, COUNT, kinds.ncclFloat32, (rank + 1) % ranks, comm, None)
        nccl.ncclRecv(one.ctypes.data, COUNT, kinds.ncclFloat32, (rank - 1) % ranks, comm, None)
        nccl.ncclGroupEnd()
        assert (one == (rank - 1) % ranks + 1).all()
        memory = nccl.ncclMemAlloc(1 << 20)
        nccl.ncclCommWindowDeregister(comm, nccl.ncclCommWindowRegister(comm, ctypes.c_void_p(memory), 1 << 20, 1))
        nccl.ncclMemFree(memory)
        self.end = lambda: nccl.ncclCommDestroy(comm)


class Nccl4py:
    def __init__(self, library):
        ctypes.CDLL(library, ctypes.RTLD_GLOBAL)  # it asks the process for NCCL's functions first
        from nccl.bindings import nccl
        self.nccl = nccl

    def unique_id(self):
        made = self.nccl.get_unique_id()
        return ctypes.string_at(made if isinstance(made, int) else made.ptr, 128)

    def run(self, ranks, text, rank):
        nccl, kind, total = self.nccl, int(self.nccl.DataType.Float32), int(self.nccl.RedOp.Sum)
        kept = ctypes.create_string_buffer(text, 128)
        comm = nccl.comm_init_rank(ranks, nccl.UniqueId.from_ptr(ctypes.addressof(kept)), rank)
        assert (nccl.comm_count(comm), nccl.comm_user_rank(comm)) == (ranks, rank)
        assert nccl.comm_query_properties(comm) is not None
        own, one, every = np.full(COUNT, rank + 1, np.float32), np.zeros(COUNT, np.float32), np.zeros((ranks, COUNT), np.float32)
        nccl.all_reduce(own.ctypes.data, one.ctypes.data, COUNT, kind, total, comm, 0)
        assert (one == sum_of(ranks)).all()
        nccl.all_gather(own.ctypes.data, every.ctypes.data, COUNT, kind, comm, 0)
        assert (every == np.arange(1, ranks + 1)[:, None]).all()
        nccl.reduce_scatter(every.ctypes.data, one.ctypes.data, COUNT, kind, total, comm, 0)
        assert (one == ranks * (rank + 1)).all()
        nccl.group_start()
        nccl.send(own.ctypes.data, COUNT, kind, (rank + 1) % ranks, comm, 0)
        nccl.recv(one.ctypes.data, COUNT, kind, (rank - 1) % ranks, comm, 0)
        nccl.group_end()
        assert (one == (rank - 1) % ranks + 1).all()
        half = nccl.comm_split(comm, rank % 2, rank, 0)
        assert nccl.comm_count(half) == (ranks + 1 - rank % 2) // 2
        nccl.comm_destroy(half)
        scalar = np.full(1, 2, np.float32)
        twice = nccl.red_op_create_pre_mul_sum(scalar.ctypes.data, kind, 1, comm)
        nccl.all_reduce(own.ctypes.data, one.ctypes.data, COUNT, kind, twice, comm, 0)
        assert (one == 2 * sum_of(ranks)).all()
        nccl.red_op_destroy(twice, comm)
        assert nccl.comm_mem_stats(comm, int(nccl.CommMemStat.GpuMemTotal)) > 0
        nccl.comm_finalize(comm)
        self.end = lambda: nccl.comm_destroy(comm)


def main():
    name, folder, sources, ranks = *sys.argv[1:4], int(sys.argv[4])
    kinds = {"sglang": Sglang, "nccl4py": Nccl4py, "vllm": lambda library: Vllm(library, Path(sources, "vllm"))}
    client = kinds[name](f"{folder}/libnccl.so.2")
    if len(sys.argv) == 7:
        client.run(ranks, bytes.fromhex(sys.argv[5]), int(sys.argv[6]))
        print("ran", flush=True)
        sys.stdin.read()  # vLLM aborts its communicator: only when all have run
        return client.end()
    text = client.unique_id()
    others = [subprocess.Popen([sys.executable, "-B", *sys.argv, text.hex(), str(rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
              for rank in range(1, ranks)]
    try:
        client.run(ranks, text, 0)
        for other in others:
            other.stdout.readline()
        for other in others:
            other.stdin.close()
        client.end()
        codes = [other.wait(timeout=60) for other in others]
    finally:
        for other in others:
            other.kill()
    if any(codes):
        sys.exit(f"{name}: ranks ended with {codes}")
    print(f"{name}: {ranks} ranks passed")


if __name__ == "__main__":
    main()
