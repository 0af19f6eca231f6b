"""The unique ID on its way through torch's store, which holds the key of the group.

With a key file (HORING_KEY_FILE), the ID is encrypted and authenticated by it, so that a reader of the store learns no key and a
writer cannot replace it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat

from .failures import failure

_ARGUMENT, _USAGE = 4, 5
_SHORTEST, _LONGEST = 32, 65536  # bytes of a key file, as for launchers
_NONCE, _TAG = 16, 32
_SEALED, _OPEN = b"sealed ", b"open "


def seal(unique_id: bytes, place: str) -> bytes:
    """The value to put into the store at the place."""
    key = _key()
    if key is None:
        return _OPEN + unique_id.hex().encode()
    nonce = os.urandom(_NONCE)
    hidden = nonce + _hide(key, nonce, unique_id)
    return _SEALED + (hidden + _tag(key, place, hidden)).hex().encode()


def unseal(sealed: bytes, place: str) -> bytes:
    """The ID that was sealed for the place. Raises an error where this process and rank 0 do not have the same key file."""
    key = _key()
    if key is None:
        if not sealed.startswith(_OPEN):
            raise failure(_USAGE, "rank 0 of the group has a HORING_KEY_FILE and this rank has none: set it to the same file on all")
        return bytes.fromhex(sealed[len(_OPEN):].decode())
    if not sealed.startswith(_SEALED):
        raise failure(_USAGE, "this rank has a HORING_KEY_FILE and rank 0 of the group has none: set it to the same file on all")
    raw = bytes.fromhex(sealed[len(_SEALED):].decode())
    hidden, tag = raw[:-_TAG], raw[-_TAG:]
    if not hmac.compare_digest(tag, _tag(key, place, hidden)):
        raise failure(_USAGE, "the ID in the store was not made with this rank's HORING_KEY_FILE: set it to the same file on all ranks")
    return _hide(key, hidden[:_NONCE], hidden[_NONCE:])


def _hide(key: bytes, nonce: bytes, data: bytes) -> bytes:
    stream = hashlib.shake_256(key + b"encrypt" + nonce).digest(len(data))
    return bytes(a ^ b for a, b in zip(data, stream))


def _tag(key: bytes, place: str, hidden: bytes) -> bytes:
    return hmac.new(key, b"authenticate" + place.encode() + b"\0" + hidden, "sha256").digest()


def _key() -> bytes | None:
    path = os.environ.get("HORING_KEY_FILE")
    if not path:
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        _check(os.fstat(descriptor), path)
        secret = file.read()
    return hashlib.sha256(b"horing.torch key file" + secret).digest()


def _check(info: os.stat_result, path: str) -> None:
    """The conditions of launchers."""
    if not stat.S_ISREG(info.st_mode):
        fault = "is not a file"
    elif info.st_uid not in (os.geteuid(), 0):
        fault = f"belongs to user {info.st_uid}: it must belong to the user of this process, {os.geteuid()}, or to root"
    elif info.st_mode & 0o077:
        fault = f"can be read or written by other users (mode {info.st_mode & 0o777:03o}): run chmod 600 {path}"
    elif not _SHORTEST <= info.st_size <= _LONGEST:
        fault = f"has {info.st_size} bytes: expected {_SHORTEST} to {_LONGEST}; head -c 32 /dev/urandom > {path} makes one"
    else:
        return
    raise failure(_ARGUMENT, f"HORING_KEY_FILE={path} {fault}")
