"""Finds and loads libhoring."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

# The library's SONAME: its number changes when old callers would break.
SONAME = "libhoring.so.0"
PACKAGED = Path(__file__).parent / "lib" / SONAME


def load() -> ctypes.CDLL:
    """The library that HORING_LIBRARY names; else the one in this package; else the one of the system.

    A CDLL: its calls release the GIL.
    """
    named = os.environ.get("HORING_LIBRARY")
    wanted = named or (str(PACKAGED) if PACKAGED.exists() else SONAME)
    try:
        return ctypes.CDLL(wanted)
    except OSError as error:
        where = "HORING_LIBRARY names it" if named else f"neither in {PACKAGED.parent} nor where the system looks"
        raise ImportError(f"cannot load {wanted} ({where}): {error}. Install the package's wheel, or set HORING_LIBRARY to "
                          "a libhoring.so") from None
