"""Element kinds: the type names of other libraries, and the types of this library."""

from __future__ import annotations

import re
from typing import Any, Dict, NamedTuple, Optional

from ._capi import ITEM_BYTES, DType, Op


class Kind(NamedTuple):
    """The type of a buffer's elements. Buffers of equal kinds may be passed in one call."""

    name: str
    bytes: int
    dtype: Optional[DType]  # None: elements that can be moved, not reduced

    def in_moves(self) -> tuple:
        """(type, elements for each of ours) for calls that only move data."""
        return (DType.uint8, self.bytes) if self.dtype is None else (self.dtype, 1)

    def check_reducible(self, op: int) -> None:
        if self.dtype is None:
            raise TypeError(f"elements of type {self.name} can be moved but not reduced")
        if self is BOOL and op not in _OPS_OF_BOOL:
            raise TypeError("a sum or average of bool is no bool: use MIN, MAX, PROD or a bitwise operation, or view the "
                            "buffer as uint8")


_OPS_OF_BOOL = (Op.MIN, Op.MAX, Op.PROD, Op.BAND, Op.BOR, Op.BXOR)
BOOL = Kind("bool", 1, DType.uint8)
_KINDS = {each.name: Kind(each.name, ITEM_BYTES[each], each) for each in DType}
_KINDS["bool"] = BOOL
_OTHERS: Dict[str, Kind] = {}  # that can only be moved
_ALIASES = {"float8_e4m3fn": "float8_e4m3", "half": "float16", "float": "float32", "double": "float64", "int": "int32",
            "long": "int64"}

# The struct module's letters, by size where that differs between machines.
_LETTERS = {"b": "int", "B": "uint", "h": "int", "H": "uint", "i": "int", "I": "uint", "l": "int", "L": "uint",
            "q": "int", "Q": "uint", "n": "int", "N": "uint", "e": "float", "f": "float", "d": "float", "c": "uint"}
_LETTERS_OF_INTERFACE = {"i": "int", "u": "uint", "f": "float", "b": "bool", "c": "complex"}
_CODES_OF_DLPACK = {0: "int", 1: "uint", 2: "float", 5: "complex", 6: "bool"}
_NAMES_OF_DLPACK = {(4, 16): "bfloat16", (10, 8): "float8_e4m3", (12, 8): "float8_e5m2"}


def of_name(name: str, size: int) -> Kind:
    name = _ALIASES.get(name, name)
    return _KINDS.get(name) or _OTHERS.setdefault(name, Kind(name, size, None))


def of_struct(letters: Optional[str], size: int) -> Kind:
    """Of a format of the buffer protocol, such as 'f' or '<i'."""
    plain = (letters or "B").lstrip("@=<")  # little-endian machines only
    if plain == "?":
        return BOOL
    if plain.startswith("Z"):
        return of_name(f"complex{8 * size}", size)
    if "O" in re.sub(":[^:]*:", "", plain):  # names of fields are between colons
        raise TypeError("Python objects cannot be sent: pickle them into bytes")
    family = _LETTERS.get(plain)
    return of_name(f"{family}{8 * size}" if family else f"'{letters}'", size)


def of_interface(letters: str) -> Kind:
    """Of a typestr of an array interface, such as '<f4'."""
    if letters[1] == "O":
        raise TypeError("Python objects cannot be sent: pickle them into bytes")
    size = int(re.sub(r"\D.*", "", letters[2:])) * (4 if letters[1] == "U" else 1)
    family = _LETTERS_OF_INTERFACE.get(letters[1]) if letters[0] in "<|" else None
    if family is None:
        return of_name(f"'{letters}'", size)
    return BOOL if family == "bool" else of_name(f"{family}{8 * size}", size)


def of_dlpack(code: int, bits: int, lanes: int) -> Kind:
    if bits % 8 != 0:
        raise TypeError(f"elements of {bits} bits are not supported")
    size = bits // 8 * lanes
    name = _NAMES_OF_DLPACK.get((code, bits)) if lanes == 1 else None
    if name is None and lanes == 1 and code in _CODES_OF_DLPACK:
        name = "bool" if code == 6 else f"{_CODES_OF_DLPACK[code]}{bits}"
    return of_name(name or f"DLPack {code}/{bits}x{lanes}", size)


def named(given: Any) -> Kind:
    """Of a dtype= argument: a DType, its name, or the type of another library, such as torch.bfloat16."""
    if isinstance(given, DType):
        return _KINDS[given.name]
    name = given if isinstance(given, str) else getattr(given, "__name__", None) or str(given)
    name = name.rsplit(".", 1)[-1]
    kind = _KINDS.get(_ALIASES.get(name, name))
    if kind is None:
        raise TypeError(f"dtype {given!r} is not one of {', '.join(_KINDS)}")
    return kind
