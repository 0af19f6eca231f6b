"""The programs of bench/torch, small, so that they run when they are needed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from launching import horing_run, need_emulated_nodes
from names import needs_fsdp2_on_cpu, needs_paro
from test_examples import output

BENCH = Path(__file__).resolve().parents[3] / "bench" / "torch"
TWO_NODES = ("-n", "2", "--nodes", "2", "--rate", "1000")


@needs_fsdp2_on_cpu
@needs_paro
def test_paro_beside_fsdp2(tmp_path):
    need_emulated_nodes()
    result = tmp_path / "result.json"
    output(horing_run(*TWO_NODES), str(BENCH / "paro.py"), "--others", "FSDP2 horing", "--strategies", "GGG", "--width", "64", "--layers", "2",
           "--micro-steps", "1", "--rounds", "1", "--json", str(result))
    fsdp, ggg = json.loads(result.read_text())["rows"]
    assert ggg["strategy"] == "GGG" and ggg["loss"] == pytest.approx(fsdp["loss"], rel=1e-4)
    # Both keep the unit gathered with which the backward pass begins; the paper's formula gathers all units twice.
    assert ggg["sent"][0] == pytest.approx(fsdp["sent"][0], rel=0.05) and ggg["sent"][0] < ggg["formula"], (ggg, fsdp)


@pytest.mark.costly
def test_collectives_beside_gloo(tmp_path):
    need_emulated_nodes()
    result = tmp_path / "result.json"
    output(horing_run(*TWO_NODES), str(BENCH / "against_gloo.py"), "--sizes", "8", "32768", "--budget", "0.01", "--json", str(result))
    assert json.loads(result.read_text())


def test_the_kept_picture_shows_the_kept_results(tmp_path):
    drawn = tmp_path / "drawn.svg"
    results = sorted((BENCH / "results").glob("*.json"), reverse=True)  # any order gives the same picture
    told = output([sys.executable], str(BENCH / "table.py"), *map(str, results), "--svg", str(drawn))
    assert told.count("geometric mean") == len(results)
    assert drawn.read_text() == (BENCH / "results" / "against_gloo.svg").read_text()
    assert drawn.read_text().count("<polyline") == 5 * len(results)


@pytest.mark.costly
def test_training_under_ddp():
    assert "tokens" in output(horing_run("-n", "2"), str(BENCH / "training.py"), "--width", "64", "--layers", "1", "--rounds", "1")
