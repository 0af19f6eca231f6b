"""horing-run, for tests that need it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from horing import _programs


def horing_run(*options: str) -> list[str]:
    return [_programs.find("horing-run"), *options, "--", sys.executable]


def need_emulated_nodes() -> None:
    """Skips the test where there can be none."""
    checked = subprocess.run([horing_run()[0], "--check-nodes"], capture_output=True, text=True)
    if checked.returncode:
        pytest.skip(f"no emulated nodes here: {checked.stdout}{checked.stderr}")
