"""The programs of the package (horing-run, all_reduce_perf, ...) as commands."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from ._library import PACKAGED

_IN_PACKAGE = Path(__file__).parent / "bin"


def find(name: str) -> str:
    """The path of a program: in this package; else next to the library that HORING_LIBRARY names; else on PATH."""
    folders = [] if os.environ.get("HORING_LIBRARY") else [_IN_PACKAGE]
    if os.environ.get("HORING_LIBRARY"):
        folders.append(Path(os.environ["HORING_LIBRARY"]).resolve().parent.parent / "bin")
    for folder in folders:
        if (folder / name).exists():
            return str(folder / name)
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is neither in {' or '.join(map(str, folders))} nor on PATH")
    return found


def run() -> None:
    """Becomes the program that this process was started as."""
    program = _IN_PACKAGE / Path(sys.argv[0]).name
    if not program.exists():
        sys.exit(f"{program} is not there: this package was installed without its programs (library: {PACKAGED})")
    os.execv(program, [str(program), *sys.argv[1:]])
