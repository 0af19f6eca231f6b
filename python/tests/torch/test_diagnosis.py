"""What a job leaves to find out why it failed: records at a deadline, logs at torch's level."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time

import pytest
import torch
import torch.distributed as dist

from horing import _programs
from ranks import run


def test_records_of_a_missed_deadline_name_the_rank_that_never_came(tmp_path, monkeypatch):
    monkeypatch.setenv("HORING_FLIGHT_DIR", str(tmp_path))

    def body(rank, size):
        dist.all_reduce(torch.ones(3))
        if rank == 1:
            time.sleep(3)
        dist.all_reduce(torch.ones(3))

    outcomes = run(3, body, group_timeout=1)
    assert all("TimeoutError" in outcomes[rank].error for rank in (0, 2)), outcomes
    records = [str(record) for record in tmp_path.glob("*.json")]
    assert len(records) == 3, records
    told = subprocess.run([_programs.find("horing-info"), "trace", *records], capture_output=True, text=True)
    assert "verdict: rank 1 never called all_reduce #" in told.stdout, told


@pytest.mark.parametrize("torchs, ours, logs", (("info", None, True), ("0", None, True), ("WARNING", None, False), ("INFO", "warn", False)))
def test_torchs_log_level(torchs, ours, logs):
    program = """
        import horing.torch, torch.distributed as dist
        dist.init_process_group("horing", store=dist.HashStore(), rank=0, world_size=1)
        """
    settings = {"TORCH_CPP_LOG_LEVEL": torchs, "HORING_DEBUG": ours}
    environment = {name: value for name, value in os.environ.items() if name not in settings}
    environment |= {name: value for name, value in settings.items() if value is not None}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and bool(re.search("^horing .* INFO ", done.stdout + done.stderr, re.MULTILINE)) == logs, done
