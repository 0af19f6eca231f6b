"""One process group of all ranks on each backend."""

from __future__ import annotations

import os
from datetime import timedelta

import torch.distributed as dist


def init_both() -> dict[str, dist.ProcessGroup]:
    """The groups by backend, horing's first: over the links of horing-run's emulated nodes where there are any."""
    if "HORING_RUN_INTERFACES" in os.environ:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", os.environ["HORING_RUN_INTERFACES"].split(",")[0])
    limit = timedelta(minutes=10)
    dist.init_process_group("horing", timeout=limit)
    return {"horing": dist.group.WORLD, "gloo": dist.new_group(backend="gloo", timeout=limit)}
