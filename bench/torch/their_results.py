"""Results of PyTorch's tests: kept in a file as they come in, so that a time limit loses none; counted; as a table."""

from __future__ import annotations

import json
import unittest
from pathlib import Path

_CUT_OFF = ("cut off", "by the time limit of its file")


class Results(unittest.TestResult):
    """One row for each test: its outcome (passed, skipped, failed, cut off), and why."""

    def __init__(self, file: Path):
        super().__init__()
        self.rows: dict[str, tuple[str, str]] = {}
        self._file = file

    @staticmethod
    def name(test: unittest.TestCase) -> str:
        return test.id().split(".", 1)[-1]

    def start(self, test: unittest.TestCase) -> None:
        self.rows[self.name(test)] = _CUT_OFF
        self.keep()

    def keep(self) -> None:
        """All or nothing, since the process may be killed meanwhile."""
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(self.rows, indent=1))
        new.replace(self._file)

    def _add(self, test, outcome: str, why: str = "") -> None:
        if self.rows.get(self.name(test), _CUT_OFF)[0] in ("passed", "cut off"):  # else the first of several errors
            self.rows[self.name(test)] = (outcome, why)
        self.keep()

    def addSuccess(self, test):
        self._add(test, "passed")

    def addSkip(self, test, reason):
        self._add(test, "skipped", reason)

    def addFailure(self, test, error):
        self._add(test, "failed", _last_error(error))

    addError = addFailure


def _last_error(error) -> str:
    lines = [line.strip() for line in str(error[1]).splitlines() if "Error" in line or "Exception" in line]
    return (lines or [repr(error[1])])[-1][:300]


def counts(on_horing: dict, on_gloo: dict) -> dict[str, int]:
    """`on_gloo` has those that failed on horing."""
    total = {"passed": 0, "skipped": 0, "horing only": 0, "both": 0, "cut off": 0}
    for name, (outcome, _) in on_horing.items():
        if outcome == "failed":
            outcome = "horing only" if on_gloo.get(name, ["failed"])[0] == "passed" else "both"
        total[outcome] += 1
    return total


def failures(kept: list[dict]) -> list[str]:
    """Those of horing alone."""
    return [f"{each['file']} {name}: {why}" for each in kept for name, (outcome, why) in each["horing"].items()
            if outcome == "failed" and each["gloo"].get(name, ["failed"])[0] == "passed"]


def table(kept: list[dict], families) -> str:
    rows = ["| suite | tests | passed | skipped by the suite | failed with horing only | failed with both | cut off by a time limit |",
            "|---|---|---|---|---|---|---|"]
    for family in families:
        each = [counts(one["horing"], one["gloo"]) for one in kept if one["family"] == family]
        if each:
            total = [sum(one[column] for one in each) for column in each[0]]
            rows.append(f"| {family} | {sum(total)} | " + " | ".join(map(str, total)) + " |")
    return "\n".join(rows)
