"""vLLM's PyNcclCommunicator and its wrapper of NCCL, unmodified, on arrays of NumPy.

It finds the library as it does for its users, by VLLM_NCCL_SO_PATH. PyTorch and the rest of vLLM, which its files import, are stand-ins:
tensors are arrays, and every stream is NCCL's NULL.
"""
import contextlib
import importlib.util
import logging
import os
import sys
import types

import numpy as np

COUNT = 1000


class Device:
    def __init__(self, name):
        self.index = int(str(name).partition(":")[2] or 0)

    def __eq__(self, other):
        return self.index == other.index


class Tensor(np.ndarray):
    device = Device("cuda:0")

    def data_ptr(self):
        return self.ctypes.data

    def numel(self):
        return self.size

    def element_size(self):
        return self.itemsize

    def copy_(self, other):
        self[...] = other


def full(shape, value, dtype=np.float32, device=None):
    return np.full(shape, value, dtype).view(Tensor)


class Group:
    """Whose ranks know the ID already."""

    def __init__(self, rank, world_size, unique_id):
        self.rank, self.world_size, self.unique_id = rank, world_size, unique_id

    def broadcast_obj(self, _, src):
        return self.unique_id


class Stream:
    cuda_stream = None

    def synchronize(self):
        pass


def module(name, **contents):
    made = sys.modules[name] = types.ModuleType(name)
    vars(made).update(contents)
    return made


def put_stand_ins():
    kinds = {name: np.dtype(name) for name in ("int8", "uint8", "int32", "int64", "float16", "float32", "float64")}
    kinds |= {name: name for name in ("bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz")}
    operations = types.SimpleNamespace(SUM=0, PRODUCT=1, MAX=2, MIN=3, AVG=4)
    distributed = module("torch.distributed", ReduceOp=operations, ProcessGroup=object, isend="isend", irecv="irecv")
    index = types.SimpleNamespace(device_index=lambda index: contextlib.nullcontext())
    module("torch", distributed=distributed, device=Device, dtype=np.dtype, Tensor=Tensor, empty_like=np.empty_like, accelerator=index,
           zeros=lambda count, device: full(count, 0), **kinds)
    platform = types.SimpleNamespace(fp8_dtype=lambda: "float8_e4m3fn", is_rocm=lambda: False)
    envs = module("vllm.envs", VLLM_DISABLE_PYNCCL=False, VLLM_USE_NCCL_SYMM_MEM=False,
                  VLLM_NCCL_SO_PATH=os.environ["VLLM_NCCL_SO_PATH"])
    module("vllm", envs=envs)
    logger = types.SimpleNamespace(info=logging.info, info_once=logging.info, warning_once=logging.warning, error=logging.error)
    module("vllm.logger", init_logger=lambda name: logger)
    module("vllm.platforms", current_platform=platform)
    module("vllm.utils")
    module("vllm.utils.torch_utils", current_stream=Stream)
    module("vllm.distributed")
    module("vllm.distributed.utils", StatelessProcessGroup=Group)
    module("vllm.distributed.device_communicators")


def load(folder, name):
    spec = importlib.util.spec_from_file_location(name, folder / (name.replace(".", "/") + ".py"))
    made = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


class Vllm:
    def __init__(self, library, folder):
        os.environ["VLLM_NCCL_SO_PATH"] = library
        put_stand_ins()
        load(folder, "vllm.utils.nccl")
        self.wrapper = load(folder, "vllm.distributed.device_communicators.pynccl_wrapper")
        self.kind = load(folder, "vllm.distributed.device_communicators.pynccl").PyNcclCommunicator

    def unique_id(self):
        return bytes(self.wrapper.NCCLLibrary().ncclGetUniqueId())

    def run(self, ranks, text, rank):
        unique_id = self.wrapper.ncclUniqueId.from_buffer_copy(text)
        comm = self.kind(Group(rank, ranks, unique_id), "cuda:0")
        own, total = full(COUNT, rank + 1), ranks * (ranks + 1) // 2
        assert comm.available and comm.nccl_version >= 22800
        assert (comm.all_reduce(own) == total).all()
        assert (comm.all_reduce(full(4, rank, np.int64), op=2) == ranks - 1).all()
        every = full((ranks, COUNT), 0)
        comm.all_gather(every, own)
        assert (every == np.arange(1, ranks + 1)[:, None]).all()
        one = full(COUNT, 0)
        comm.reduce_scatter(one, every)
        assert (one == ranks * (rank + 1)).all()
        comm.reduce(one, own, ranks - 1)
        assert rank != ranks - 1 or (one == total).all()
        self.try_uneven(comm, ranks, rank)
        self.try_messages(comm, ranks, rank)
        window = comm.register_comm_window(every)
        comm.deregister_comm_window(window)
        comm.suspend()
        comm.resume()
        comm.broadcast(own, ranks - 1)
        assert (own == ranks).all()
        self.try_errors(comm)
        self.end = comm.destroy

    def try_uneven(self, comm, ranks, rank):
        sizes = [each + 1 for each in range(ranks)]
        expected = np.repeat(np.arange(ranks), sizes)
        every, mine = full(sum(sizes), -1), full(sizes[rank], rank)
        comm.all_gatherv(every, mine, sizes)
        assert (every == expected).all()
        comm.reduce_scatterv(mine, every, sizes)
        assert (mine == ranks * rank).all()
        comm.scatter(mine, every, sizes, root=1)
        assert (mine == rank).all()

    def try_messages(self, comm, ranks, rank):
        own, one = full(COUNT, rank), full(COUNT, -1)
        operation = types.SimpleNamespace
        comm.batch_isend_irecv([operation(op="isend", tensor=own, group_peer=(rank + 1) % ranks),
                                operation(op="irecv", tensor=one, group_peer=(rank - 1) % ranks)])
        assert (one == (rank - 1) % ranks).all()

    def try_errors(self, comm):
        try:
            comm.send(full(1, 0), 1000)
        except RuntimeError as refused:
            assert "1000" in str(refused), refused
        else:
            raise AssertionError("a message to rank 1000 was not refused")
