"""The files of PyTorch's distributed tests that take a backend by name, in families; patterns below test/distributed.

FILE::CLASS takes only that class: the others of the file test Gloo itself.
"""

FAMILIES = {
    "backend suites": ["c10d_backend_common.py"],  # of later copies only; their_suites.py instantiates them
    "FSDP2": ["_composable/fsdp/test_*.py", "_composable/test_composability/test_2d_composability.py"],
    "DDP": ["test_distributed_spawn.py", "test_c10d_gloo.py::DistributedDataParallelTest", "algorithms/**/test_*.py",
            "_composable/test_replicate.py"],
    "DTensor": ["_tensor/**/test_*.py", "tensor/test_*.py", "tensor/debug/test_*.py", "tensor/experimental/test_*.py"],
    "tensor parallel": ["tensor/parallel/test_*.py"],
    "checkpoints": ["checkpoint/**/test_*.py"],
    "FSDP1": ["fsdp/test_*.py"],
    "pipelining": ["pipelining/test_*.py", "_composable/test_composability/test_pp_composability.py"],
    "functional collectives": ["test_functional_api.py", "test_c10d_functional_native.py", "test_inductor_collectives.py",
                               "test_compute_comm_reordering.py"],
    "DeviceMesh": ["test_device_mesh.py"],
    "ZeroRedundancyOptimizer": ["optim/test_*.py"],
    "ShardedTensor": ["_shard/**/test_*.py"],
    "others": ["test_c10d_common.py", "test_c10d_spawn_gloo.py", "test_collective_utils.py", "test_c10d_object_collectives.py",
               "test_c10d_logger.py"],
}
# Ranks where a test takes one for each GPU; 2 otherwise.
RANKS = {"test_distributed_spawn.py": 4, "test_device_mesh.py": 4}
