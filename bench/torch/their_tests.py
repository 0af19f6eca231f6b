#!/usr/bin/env python3
"""Runs PyTorch's own distributed tests on horing, on the CPU, and those that fail there on Gloo, too.

    python bench/torch/their_tests.py CHECKOUT [FAMILY...] [--json FOLDER] [--jobs N] [--limit S] [--failures]

CHECKOUT is a copy of pytorch/pytorch; nothing in it is changed. torch and expecttest are needed. Results are kept in a folder, one file
for each of theirs, and what is there is not run again. Prints a table; the exit code is 1 if a test failed on horing alone.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
import unittest
from multiprocessing import get_context
from pathlib import Path

from their_families import FAMILIES, RANKS
from their_results import Results, counts, failures, table

_forking = get_context("fork")


def files_of(checkout: Path, family: str) -> list[tuple[Path, str]]:
    """Files, and the one class to take of each, or ""."""
    found = []
    for pattern in FAMILIES[family]:
        files, _, suite = pattern.partition("::")
        found += [(file, suite) for file in sorted((checkout / "test" / "distributed").glob(files))]
    return found


def tests_of(module, only: str) -> list[unittest.TestCase]:
    """Those that start ranks: the others need no backend."""
    from torch.testing._internal.common_distributed import MultiProcContinuousTest, MultiProcessTestCase

    found = []
    for suite in vars(module).values():
        if isinstance(suite, type) and issubclass(suite, (MultiProcessTestCase, MultiProcContinuousTest)) and \
                not any("LocalDTensor" in base.__name__ for base in suite.__mro__) and only in ("", suite.__name__):
            found += unittest.defaultTestLoader.loadTestsFromTestCase(suite)
    return found


def run_file(file: Path, suite: str, backend: str, kept: Path, names: list[str] | None) -> None:
    """In a process of its own, which leads a group of processes: the ranks."""
    os.setpgrp()
    output = os.open(kept.with_suffix(f".{backend}.log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    import their_ranks

    results = Results(kept)
    try:
        their_ranks.settle(backend, RANKS.get(file.name, 2))
        tests = tests_of(their_ranks.load(file), suite)
    except BaseException as error:
        results.rows["(the file)"] = ("failed", f"cannot be loaded: {error!r}"[:300])
        results.keep()
        return
    for test in tests:
        if names is None or results.name(test) in names:
            type(test).poison_pill = type(test)._processes_spawned = False  # of the test before it, whose ranks have ended
            results.start(test)
            unittest.TestSuite([test]).run(results)
    results.keep()


def outcomes(file: Path, suite: str, backend: str, kept: Path, limit: float, names: list[str] | None = None) -> dict[str, list[str]]:
    process = _forking.Process(target=run_file, args=(file, suite, backend, kept, names))
    process.start()
    process.join(limit)
    if process.is_alive():
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
    rows = json.loads(kept.read_text()) if kept.exists() else {"(the file)": ["failed", f"ended with {process.exitcode}"]}
    kept.unlink(missing_ok=True)
    return rows


def run_both(family: str, name: str, file: Path, suite: str, kept: Path, limit: float) -> None:
    scratch = kept.with_suffix(".part")
    rows = outcomes(file, suite, "horing", scratch, limit)
    failed = [test for test, (outcome, _) in rows.items() if outcome == "failed"]
    on_gloo = outcomes(file, suite, "gloo", scratch, limit, failed) if failed else {}
    kept.write_text(json.dumps({"family": family, "file": name, "horing": rows, "gloo": on_gloo}, indent=1))
    print(f"{family}: {name}: {counts(rows, on_gloo)}", flush=True)


def run(checkout: Path, families: list[str], words: list[str], folder: Path, jobs: int, limit: float) -> None:
    import their_ranks

    their_ranks.preload()
    running = []
    for family in families:
        for file, suite in files_of(checkout, family):
            name = str(file.relative_to(checkout / "test" / "distributed"))
            kept = folder / (name.replace("/", "-") + ".json")
            if kept.exists() or not any(word in name for word in words):
                continue
            while len(running) >= jobs:
                time.sleep(0.1)
                running = [process for process in running if process.is_alive()]
            running.append(_forking.Process(target=run_both, args=(family, name, file, suite, kept, limit)))
            running[-1].start()
    for process in running:
        process.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=lambda path: Path(path).resolve())
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD", help="files whose path has one of these words")
    parser.add_argument("--json", type=Path, default=Path("build/their-tests"), help="folder for results")
    parser.add_argument("--jobs", type=int, default=1, help="files at once")
    parser.add_argument("--limit", type=float, default=1200, help="seconds for a file on a backend")
    parser.add_argument("--failures", action="store_true", help="also print each test that failed on horing alone, and why")
    arguments = parser.parse_args()
    arguments.json.mkdir(parents=True, exist_ok=True)
    run(arguments.checkout, arguments.families or list(FAMILIES), arguments.only, arguments.json.resolve(), arguments.jobs,
        arguments.limit)
    kept = [json.loads(file.read_text()) for file in sorted(arguments.json.glob("*.json"))]
    print(table(kept, FAMILIES))
    on_horing_alone = failures(kept)
    if arguments.failures:
        print("\n".join(on_horing_alone))
    return 1 if on_horing_alone else 0


if __name__ == "__main__":
    sys.exit(main())
