"""PaRO: sharded data-parallel training of any ``nn.Module``.

    model = paro.shard(model, strategy="auto", memory="40GiB")
    optimizer = torch.optim.AdamW(model.parameters())

and the training loop as it was. :func:`shard` says more.
"""

from .module import ShardedModule, shard
from .shards import ShardParameter, element_wise

__all__ = ["ShardParameter", "ShardedModule", "element_wise", "shard"]
