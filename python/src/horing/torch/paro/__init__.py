"""PaRO: sharded data-parallel training of any ``nn.Module``.

    model = paro.shard(model, strategy="auto", memory="40GiB")
    optimizer = torch.optim.AdamW(model.parameters())

and an unchanged training loop. See :func:`shard`.
"""

from .module import ShardedModule, shard
from .shards import ShardParameter, element_wise
from .summary import Usage

__all__ = ["ShardParameter", "ShardedModule", "Usage", "element_wise", "shard"]
