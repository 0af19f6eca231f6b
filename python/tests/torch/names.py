"""What has another name in older torch."""

import pytest
import torch

from horing.torch.paro import saved

_VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
HAS_FSDP2_ON_CPU = _VERSION >= (2, 6)
HAS_PARO = saved.can_be_packed()
needs_fsdp2_on_cpu = pytest.mark.skipif(not HAS_FSDP2_ON_CPU, reason="this torch has fully_shard for GPUs only")
needs_paro = pytest.mark.skipif(not HAS_PARO, reason="PaRO needs a newer torch")

try:  # 2.6
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
except ImportError:
    from torch.distributed._composable.fsdp import MixedPrecisionPolicy, fully_shard
try:  # 2.5
    from torch.distributed.tensor import Shard, distribute_tensor
except ImportError:
    from torch.distributed._tensor import Shard, distribute_tensor

__all__ = ["HAS_FSDP2_ON_CPU", "HAS_PARO", "MixedPrecisionPolicy", "Shard", "distribute_tensor", "fully_shard", "needs_fsdp2_on_cpu", "needs_paro"]
