"""The ``torch.distributed`` backend ``horing``.

Importing this module registers it::

    import horing.torch
    torch.distributed.init_process_group("horing")

From torch 2.14 on an installed package is enough: torch finds it by its entry point. Ranks meet through torch's store; no key
file and no port are needed. The backend serves tensors on the CPU and on GPUs (devices.py).
"""

from __future__ import annotations

import os
import sys

import torch.distributed as dist

__all__ = ["ProcessGroupHoring", "register"]

from .devices import KINDS
from .process_group import ProcessGroupHoring
from .uncompiled import leave_uncompiled


def register() -> None:
    """Makes ``"horing"`` a backend of ``torch.distributed`` for tensors on the CPU and on GPUs. Again: no effect."""
    if "HORING" not in dist.Backend._plugins:
        dist.Backend.register_backend("horing", ProcessGroupHoring.create, extended_api=True, devices=["cpu", *KINDS])


def _follow_torchs_log_level() -> None:
    """TORCH_CPP_LOG_LEVEL=INFO is HORING_DEBUG=info, unless that is set. The level is read as torch reads it."""
    if os.environ.get("TORCH_CPP_LOG_LEVEL", "").upper() in ("INFO", "0"):
        os.environ.setdefault("HORING_DEBUG", "info")


_follow_torchs_log_level()
register()
for _name, _module in list(sys.modules.items()):
    if _name.partition(".")[0] == "horing":
        leave_uncompiled(_module)
