"""`./tools/dev build` in a small tree of its own, which is moved then: what was configured at the old place must not keep it from building.

usage: dev_build_test.py SOURCE_FOLDER
"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PRESETS = """{"version": 4,
  "configurePresets": [{"name": "quick", "generator": "Ninja", "binaryDir": "${sourceDir}/build/quick"}],
  "buildPresets": [{"name": "quick", "configurePreset": "quick"}]}"""
PROJECT = """cmake_minimum_required(VERSION 3.24)
project(tree NONE)
add_custom_target(where ALL COMMAND ${CMAKE_COMMAND} -E echo ${PROJECT_SOURCE_DIR} > where.txt VERBATIM)
"""


def build(tree):
    done = subprocess.run([tree / "tools/dev", "build", "quick"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"tools/dev build in {tree} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    if (tree / "build/quick/where.txt").read_text().strip() != str(tree):
        sys.exit(f"tools/dev build in {tree} built the sources of another folder")


with tempfile.TemporaryDirectory() as name:
    first, second = Path(name).resolve() / "first", Path(name).resolve() / "second"
    (first / "tools").mkdir(parents=True)
    shutil.copy(Path(sys.argv[1]) / "tools/dev", first / "tools/dev")
    (first / "tools/packages.txt").write_text("bash programs\nbash nodes\n")  # which is there
    (first / "CMakePresets.json").write_text(PRESETS)
    (first / "CMakeLists.txt").write_text(PROJECT)
    build(first)
    build(first)
    first.rename(second)
    build(second)
