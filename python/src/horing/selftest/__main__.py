"""``python -m horing.selftest [--ranks 2 4]``: every collective, type and error path, on ranks that it starts by itself.

Prints a table and ends with 0 if all is well, 1 if not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import horing
from horing import _capi, _programs

from . import _failures
from ._checks import CHECKS
from ._failures import FAILURES

_SECONDS = 120  # that a job has
_RANK = [sys.executable, "-m", "horing.selftest._rank"]
_ROW = "{:<16} {:>5} {:>6} {:>8}  {}"


def _environment(folder: str, **more: str) -> Dict[str, str]:
    return {**os.environ, "SELFTEST_FOLDER": folder, "HORING_CACHE_DIR": "off", **more}


def _reports(folder: str, ranks: int) -> List[Dict[str, dict]]:
    """The results of each rank, by check."""
    found = []
    for rank in range(ranks):
        file = Path(folder) / f"rank{rank}"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        found.append({each["check"]: each for each in map(json.loads, lines)})
    return found


def _run_checks(ranks: int) -> Tuple[List[Dict[str, dict]], str]:
    """A job of horing-run: the results of its ranks, and why it failed if it did."""
    with tempfile.TemporaryDirectory(prefix="horing-selftest-") as folder:
        command = [_programs.find("horing-run"), "-n", str(ranks), "--", *_RANK, "checks"]
        try:
            job = subprocess.run(command, env=_environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 timeout=_SECONDS)
        except subprocess.TimeoutExpired as error:
            return _reports(folder, ranks), f"not ended after {_SECONDS} s: {(error.stdout or b'').decode(errors='replace')}"
        why = "" if job.returncode == 0 else f"horing-run ended with {job.returncode}: {job.stdout.decode(errors='replace')}"
        return _reports(folder, ranks), why


def _error_of_check(name: str, reports: List[Dict[str, dict]], why: str) -> Optional[str]:
    for rank, report in enumerate(reports):
        if name not in report:
            return f"rank {rank} did not come to it. {why}"
        if report[name]["error"]:
            return f"rank {rank}: {report[name]['error']}"
    return None


def _run_failure(name: str) -> Tuple[Optional[str], float]:
    """A job without a launcher: its error, and its duration."""
    size, begin = _failures.RANKS, time.monotonic()
    more = {"HORING_TIMEOUT_MS": str(_failures.TIMEOUT_MS)} if name == "late_rank" else {}
    with tempfile.TemporaryDirectory(prefix="horing-selftest-") as folder:
        ranks = [subprocess.Popen([*_RANK, name, str(size), str(rank)], env=_environment(folder, **more),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in range(size)]
        texts, hung = [], []
        for rank, process in enumerate(ranks):
            try:
                texts.append(process.communicate(timeout=max(1.0, begin + _SECONDS - time.monotonic()))[0])
            except subprocess.TimeoutExpired:
                process.kill()
                texts.append(process.communicate()[0])
                hung.append(rank)
        seconds, reports = time.monotonic() - begin, _reports(folder, size)
    expected = _failures.ENDS.get(name, (0,) * size)
    for rank, process in enumerate(ranks):
        error = reports[rank].get(name, {}).get("error")
        if error or rank in hung or process.returncode != expected[rank]:
            how = f"had not ended after {_SECONDS} s" if rank in hung else f"ended with {process.returncode}"
            return f"rank {rank} {how}, expected {expected[rank]}: {error or texts[rank].decode(errors='replace')}", seconds
    return None, seconds


def _show(name: str, ranks: int, cases: object, seconds: float, error: Optional[str]) -> bool:
    print(_ROW.format(name, ranks, cases, f"{seconds:.2f} s", "FAILED" if error else "ok"), flush=True)
    if error:
        print("    " + error.strip().replace("\n", "\n    "))
    return error is None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m horing.selftest", description="Checks that horing works on this machine.")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4], choices=range(1, 5),
                        help="ranks of the jobs, 1 to 4 (default: 2 4)")
    options = parser.parse_args()
    print(f"horing {horing.library_version()}, {_capi.library._name}")
    print(_ROW.format("check", "ranks", "cases", "time", "result"))
    results = []
    for ranks in options.ranks:
        reports, why = _run_checks(ranks)
        for name in CHECKS:
            error = _error_of_check(name, reports, why)
            known = [report[name] for report in reports if name in report]
            results.append(_show(name, ranks, known[0]["cases"] if known else "-",
                                 max((each["seconds"] for each in known), default=0.0), error))
            if error:
                break  # the ranks went no further
    for name in FAILURES:
        error, seconds = _run_failure(name)
        results.append(_show(name, _failures.RANKS, 1, seconds, error))
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
