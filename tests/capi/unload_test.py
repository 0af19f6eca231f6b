"""A program that closes the library while threads of it wait (dlclose) goes on: unload_test.py LIBRARY"""

import ctypes
import sys
import time

import _ctypes

library = ctypes.CDLL(sys.argv[1])
unique_id = ctypes.create_string_buffer(128)
assert library.horingGetUniqueId(unique_id) == 0
_ctypes.dlclose(library._handle)
# The thread of the rendezvous, and code that it would find gone.
with open("/proc/self/maps", encoding="utf-8") as maps:
    assert "libhoring" in maps.read(), "the library was unloaded under its threads"
time.sleep(0.1)
