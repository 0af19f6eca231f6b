"""What has another name in older torch."""

try:  # 2.6
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
except ImportError:
    from torch.distributed._composable.fsdp import MixedPrecisionPolicy, fully_shard
try:  # 2.5
    from torch.distributed.tensor import Shard, distribute_tensor
except ImportError:
    from torch.distributed._tensor import Shard, distribute_tensor

__all__ = ["MixedPrecisionPolicy", "Shard", "distribute_tensor", "fully_shard"]
