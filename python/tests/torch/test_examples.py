"""The programs of examples/torch, started by torchrun and by horing-run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch

import horing
from launching import horing_run, need_emulated_nodes
from names import needs_fsdp2_on_cpu, needs_paro

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES, DOCS = ROOT / "examples" / "torch", ROOT / "docs"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def output(launcher: list[str], *arguments: str, cwd: Path | None = None) -> str:
    programs = [str(Path(each).parent) for each in (sys.executable, horing_run()[0])]
    environment = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "HORING_KEY_FILE")}
    environment |= {"OMP_NUM_THREADS": "1", "PATH": os.pathsep.join([*programs, os.environ["PATH"]]),
                    # The package that is tested, wherever they run.
                    "PYTHONPATH": os.pathsep.join(filter(None, (str(Path(horing.__file__).parents[1]), os.environ.get("PYTHONPATH"))))}
    process = subprocess.Popen([*launcher, *arguments], cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        out, errors = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # a killed torchrun would leave its ranks behind
        raise
    assert process.returncode == 0, out + errors
    return out


LAUNCHERS = {"torchrun": lambda: TORCHRUN, "horing-run": lambda: horing_run("-n", "2"),
             "two emulated nodes": lambda: horing_run("-n", "4", "--nodes", "2", "--rate", "1000")}
# A program that runs on two nodes does on one. What each launcher has of its own is how ranks meet, which one program shows: most of
# the time of a run goes to the import of PyTorch in every rank.
ON_NODES = [pytest.param(name, marks=() if name == "two emulated nodes" else pytest.mark.costly) for name in LAUNCHERS]
# Programs one after the other in the same ranks, each with one argument. Rank 0 is the host of a store that all have to have left before
# it makes the next.
IN_TURN = """
import gc, glob, os, runpy, sys, time
for program, folder in zip(sys.argv[1::2], sys.argv[2::2]):
    sys.argv[1:] = [folder]
    runpy.run_path(program, run_name="__main__")
    gc.collect()
    open(f"{folder}.left-by-{os.environ['RANK']}", "w").close()
    while len(glob.glob(f"{folder}.left-by-*")) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.02)
"""


@pytest.fixture
def launcher(request):
    if request.param == "two emulated nodes":
        need_emulated_nodes()
    return LAUNCHERS[request.param]()


def losses(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"loss ([0-9.]+)", text)]


@pytest.mark.parametrize("launcher", LAUNCHERS, indirect=True)
def test_ddp(launcher):
    found = losses(output(launcher, str(EXAMPLES / "ddp.py")))
    assert len(found) == 6 and found[-1] < 0.5 * found[0], found


@pytest.mark.parametrize("launcher", ON_NODES, indirect=True)
@needs_fsdp2_on_cpu
@needs_paro
def test_fsdp_and_paro_in_its_place_as_the_guide_changes_the_script(launcher, tmp_path):
    script, guide = (EXAMPLES / "fsdp.py").read_text(), (DOCS / "paro-pytorch.md").read_text()
    for part in re.search("```diff\n(.*?)```", guide, re.DOTALL)[1].split("@@\n"):
        lines = part.splitlines()
        before, after = ("\n".join(line[1:] for line in lines if line[0] != sign) for sign in "+-")
        assert script.count(before) == 1, before
        script = script.replace(before, after)
    (tmp_path / "changed.py").write_text(script)
    (tmp_path / "both.py").write_text(IN_TURN)
    programs = {"FSDP": EXAMPLES / "fsdp.py", "PaRO": tmp_path / "changed.py"}
    text = output(launcher, str(tmp_path / "both.py"), *(str(each) for name, path in programs.items() for each in (path, tmp_path / name)))
    found = dict(zip(programs, map(losses, text.split("saved to"))))
    assert text.count("saved to") == 2 and all((tmp_path / name / ".metadata").exists() for name in programs)
    assert len(found["FSDP"]) == 5 and found["FSDP"][-1] < 0.7 * found["FSDP"][0], found
    assert found["PaRO"] == pytest.approx(found["FSDP"], rel=1e-3)


@needs_paro
def test_paro_as_the_guide_starts_it(tmp_path):
    need_emulated_nodes()
    blocks = re.findall("^```sh[^\n]*\n(.*?)^```$", (DOCS / "paro-pytorch.md").read_text(), re.DOTALL | re.MULTILINE)
    (block,) = (each for each in blocks if "paro_gpt.py" in each)
    (tmp_path / "examples").symlink_to(EXAMPLES.parent)
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"  # there may be none outside a virtual environment
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    check_paro(output(["bash", "-euc", f'PATH="$PWD/bin:$PATH"\n{block}'], cwd=tmp_path), tmp_path)


@pytest.mark.costly
@pytest.mark.parametrize("launcher", ("torchrun", "horing-run"), indirect=True)
@needs_paro
def test_paro(launcher, tmp_path):
    check_paro(output(launcher, str(EXAMPLES / "paro_gpt.py"), "--save", "model.pt", "--svg", "training.svg", cwd=tmp_path), tmp_path)


def check_paro(text, tmp_path):
    found = losses(text)
    assert len(found) == 4 and found[-1] < 0.3 * found[0], found
    assert "<- this one" in text and "saved to" in text
    assert torch.load(tmp_path / "model.pt")["words.weight"].shape == (11, 32)
    reported = re.findall(r"(\d+) tokens/s, ([0-9.]+) MB held by a rank, sent by it so far ([0-9.]+) MB between groups", text)
    assert len(reported) == 4 and all(int(rate) > 0 and float(held) > 0 for rate, held, _ in reported), text
    drawn = ElementTree.parse(tmp_path / "training.svg").getroot()
    names = [each.text for each in drawn.findall(".//{*}text") if each.get("class") == "name"]
    assert names[0].startswith("PaRO ") and names[1:] == ["loss", "tokens per second", "memory of a rank, MB", "sent by a rank, MB"]
    lines = [each.get("points").split() for each in drawn.findall(".//{*}polyline")]
    assert [len(each) for each in lines] == [30] * 5
    heights = [float(point.split(",")[1]) for point in lines[0]]
    assert heights[-1] > heights[0]  # the loss fell: downwards in a picture is more


@pytest.mark.parametrize("launcher", ON_NODES, indirect=True)
def test_tensor_parallel(launcher):
    found = re.search(r"difference from one process: (\S+);", output(launcher, str(EXAMPLES / "tensor_parallel.py")))
    assert found and float(found[1]) < 1e-5
