#!/usr/bin/env python3
"""Runs PyTorch's own tests of backends (test/distributed/c10d_backend_common.py and its suites) on horing, on the CPU.

    python bench/torch/their_tests.py CHECKOUT [--only WORD] [--json FILE]

CHECKOUT is a copy of pytorch/pytorch, of the same version as the installed torch or newer; nothing in it is changed. Prints one
line for each test: passed, skipped or failed, and why; and how many. The exit code is 1 if a test failed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import unittest
from pathlib import Path

def load(checkout: Path) -> list[unittest.TestCase]:
    os.environ["HORING_PYTORCH"] = str(checkout.resolve())
    import their_suites

    tests = []
    for suite in their_suites.CLASSES:
        tests += list(unittest.defaultTestLoader.loadTestsFromTestCase(suite))
    return tests


class Results(unittest.TestResult):
    """One row for each test, printed as it ends."""

    def __init__(self):
        super().__init__()
        self.rows: dict[str, tuple[str, str]] = {}

    def _add(self, test, outcome: str, why: str = "") -> None:
        name = test.id().split(".", 1)[-1]
        if self.rows.get(name, ("passed",))[0] == "passed":
            self.rows[name] = (outcome, why)
            print(f"{outcome:8} {name}{': ' + why if why else ''}", flush=True)

    def addSuccess(self, test):
        self._add(test, "passed")

    def addSkip(self, test, reason):
        self._add(test, "skipped", reason)

    def addFailure(self, test, error):
        self._add(test, "failed", _last_error(error))

    def addError(self, test, error):
        self._add(test, "failed", _last_error(error))


def _last_error(error) -> str:
    lines = [line.strip() for line in str(error[1]).splitlines() if "Error" in line or "Exception" in line]
    return (lines or [repr(error[1])])[-1][:300]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default="", help="tests whose name contains this word")
    parser.add_argument("--json", help="file for all results")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    results = Results()
    for test in load(arguments.checkout):
        if arguments.only in test.id():
            test.run(results)
    counts = {outcome: sum(row[0] == outcome for row in results.rows.values()) for outcome in ("passed", "skipped", "failed")}
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results.rows, indent=1))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
