"""Small whole numbers in every element type, without NumPy: each sum of the checks is exact in each of them."""

from __future__ import annotations

import struct
from typing import List

from .._capi import DType

_LETTERS = {"int8": "b", "uint8": "B", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q", "float16": "e",
            "float32": "f", "float64": "d"}
# 0 to 8, where float8 has them all; above 8 it has the even ones.
_FLOAT8 = {"float8_e4m3": (0x00, 0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e, 0x50),
           "float8_e5m2": (0x00, 0x3c, 0x40, 0x42, 0x44, -1, 0x46, -1, 0x48)}


def pack(values: List[int], dtype: DType) -> bytearray:
    name = dtype.name
    if name in _LETTERS:
        return bytearray(struct.pack(f"<{len(values)}{_LETTERS[name]}", *values))
    if name == "bfloat16":
        return bytearray(b"".join(struct.pack("<f", value)[2:] for value in values))
    table = _FLOAT8[name]
    return bytearray(table[value] for value in values)


def is_float(dtype: DType) -> bool:
    return "float" in dtype.name
