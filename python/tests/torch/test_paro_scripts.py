"""horing.torch.paro: lines of scripts for FSDP2 and DDP."""

from __future__ import annotations

from horing.torch import paro
from names import needs_paro
from paro_models import made
from test_paro_trouble import Layers, as_alone, inputs_of

pytestmark = needs_paro


def test_lines_of_fsdp2_and_ddp_scripts_run():
    def run(net, optimizer, ranks):
        def loss(number):
            return sum(net(inputs_of(number, rank)).square().mean() / len(ranks) for rank in ranks)

        is_sharded = isinstance(net, paro.ShardedModule)
        modules = [net, *net.layers] if is_sharded else []
        for module in modules:
            module.set_modules_to_forward_prefetch(list(net.layers[1:3]))
            module.set_modules_to_backward_prefetch(list(net.layers[:1]))
            module.set_reshard_after_forward(False)
            module.set_reshard_after_backward(False, recurse=False)
        for step in range(2):
            optimizer.zero_grad()
            for module in modules:
                module.unshard()
                module.unshard(async_op=True).wait()
            for micro in range(3):
                for module in modules:
                    module.set_is_last_backward(micro == 2)
                    module.set_requires_gradient_sync(micro == 2)
                    module.set_requires_all_reduce(micro == 2, recurse=True)
                loss(10 * step + micro).backward()
            if is_sharded:
                with net.no_sync():
                    loss(10 * step + 3).backward()
            else:
                loss(10 * step + 3).backward()
            loss(10 * step + 4).backward()
            optimizer.step()
            for module in modules:
                module.reshard()

    as_alone(run, lambda: made(Layers, [0, 1, 3]))
