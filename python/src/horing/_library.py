"""Finds and loads libhoring."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from ._version import __version__

_MAJOR, _MINOR = __version__.split(".")[:2]
INTERFACE = _MAJOR if _MAJOR != "0" else f"{_MAJOR}.{_MINOR}"  # before 1.0 a minor version may change the interface
SONAME = f"libhoring.so.{INTERFACE}"
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
