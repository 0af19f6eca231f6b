"""Where there is a key file, the store holds nothing by which one could join."""

from __future__ import annotations

import os

import pytest
import torch
import torch.distributed as dist

import horing
from horing.torch import secret
from ranks import check, join, run

ID = bytes(range(128))


def key_file(folder: str, name: str = "key", content: bytes = b"k" * 32, mode: int = 0o600) -> str:
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, mode)
    return path


def test_a_group_whose_store_does_not_hold_its_key():
    def body(rank, size, folder):
        stored = []
        os.environ["HORING_KEY_FILE"] = key_file(folder, f"key{rank}")
        make = horing._capi.horingGetUniqueId

        def remember(unique_id):
            code = make(unique_id)
            stored.append(bytes(unique_id.internal))
            return code

        horing._capi.horingGetUniqueId = remember
        join(rank, size, folder)
        total = torch.ones(3)
        dist.all_reduce(total)
        assert (total == size).all()
        with open(os.path.join(folder, "store"), "rb") as file:
            everything = file.read()
        assert b"sealed " in everything
        for unique_id in stored:  # on rank 0; no part of it is there
            for begin in range(0, 120, 8):
                assert unique_id[begin:begin + 8].hex().encode() not in everything or not any(unique_id[begin:begin + 8])
        dist.destroy_process_group()
        return len(stored)

    assert check(3, body, group=False) == [1, 0, 0]


@pytest.mark.parametrize("odd, expected", (("none", "this rank has none"), ("other", "was not made with this rank's"),
                                           ("only", "rank 0 of the group has none")))
def test_ranks_without_the_same_key_file(odd, expected):
    def body(rank, size, folder):
        has_key = (rank == 1) == (odd == "only") or odd == "other"
        if has_key:
            os.environ["HORING_KEY_FILE"] = key_file(folder, f"key{rank}", b"kx"[rank == 1 and odd == "other"].to_bytes(1, "big") * 32)
        join(rank, size, folder, timeout=2)

    outcome = run(2, body, group=False)[1]
    assert outcome.error and expected in outcome.error, outcome


def test_an_id_is_good_at_its_place_only(tmp_path, monkeypatch):
    monkeypatch.setenv("HORING_KEY_FILE", key_file(str(tmp_path)))
    sealed = secret.seal(ID, "1 id")
    assert secret.unseal(sealed, "1 id") == ID and secret.seal(ID, "1 id") != sealed
    with pytest.raises(RuntimeError, match="was not made with"):
        secret.unseal(sealed, "2 id")
    altered = sealed[:-1] + (b"0" if sealed[-1:] != b"0" else b"1")
    with pytest.raises(RuntimeError, match="was not made with"):
        secret.unseal(altered, "1 id")


@pytest.mark.parametrize("content, mode, expected", ((b"k" * 31, 0o600, "has 31 bytes"), (b"k" * 32, 0o640, "by other users .mode 640")))
def test_a_key_file_that_is_no_secret(content, mode, expected, tmp_path, monkeypatch):
    monkeypatch.setenv("HORING_KEY_FILE", key_file(str(tmp_path), content=content, mode=mode))
    with pytest.raises(ValueError, match=expected):
        secret.seal(ID, "1 id")
