"""PyTorch's suites for backends, adapted to horing. A module of its own, so that processes which start anew find it.

THEIR_COPY names a copy of pytorch/pytorch, THEIR_BACKEND the backend.
"""

from __future__ import annotations

import importlib
import os
import sys

import horing.torch  # noqa: F401

sys.path.insert(0, os.path.join(os.environ["THEIR_COPY"], "test", "distributed"))
import c10d_backend_common as common  # noqa: E402

_SUITES = {"test_c10d_collectives": ("AbstractCollectivesTest", "Collectives"), "test_c10d_p2p": ("AbstractP2PTest", "P2P"),
           "test_c10d_process_group": ("AbstractProcessGroupTest", "ProcessGroup")}
# The capabilities that the suites query; an older BackendConfig may lack some.
_ABILITIES = dict(supports_coalescing=True, supports_bitwise_reductions=True, supports_dropped_p2p_work=True,
                  supports_work_sequence_number=True, supports_sequence_numbers=True, supports_work_result=True)

_known = common.BackendConfig.__dataclass_fields__
_backend = common.BackendConfig(os.environ["THEIR_BACKEND"], "cpu", **{name: value for name, value in _ABILITIES.items() if name in _known})
CLASSES = []
for _module, (_abstract, _suite) in _SUITES.items():
    _before = set(globals())
    common.instantiate_backend_tests(globals(), _suite, getattr(importlib.import_module(_module), _abstract), (_backend,))
    for _name in set(globals()) - _before - {"_before"}:
        for _ability, _value in _ABILITIES.items():
            if _ability not in _known:
                setattr(globals()[_name], _ability, _value)
        CLASSES.append(globals()[_name])
