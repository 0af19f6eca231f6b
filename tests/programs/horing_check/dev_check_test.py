"""`./tools/dev check` with the real horing-run, and a stand-in for horing-check whose rank 0 ends with a given exit code."""
import pathlib
import subprocess
import sys
import tempfile

SOURCES, HORING_RUN = map(pathlib.Path, sys.argv[1:])
# The command alone, with what it calls.
COMMAND = """set -euo pipefail
say() { echo "$@"; }
fail() { echo "$@" >&2; exit 1; }
build_quick() { :; }
eval "$(sed -n '/^command_check()/,/^}/p' "$1")"
shift
command_check "$@"
"""


def check(code, *options):
    with tempfile.TemporaryDirectory() as folder:
        programs = pathlib.Path(folder, "build/quick/bin")
        programs.mkdir(parents=True)
        (programs / "horing-run").symlink_to(HORING_RUN)
        (programs / "horing-check").write_text(f'#!/bin/sh\n[ $RANK != 0 ] || exit {code}\n')
        (programs / "horing-check").chmod(0o755)
        return subprocess.run(["bash", "-c", COMMAND, "bash", SOURCES / "tools/dev", *options], cwd=folder,
                              capture_output=True, text=True, timeout=120)


if subprocess.run([HORING_RUN, "--check-nodes"], capture_output=True).returncode != 0:
    print("SKIPPED: nodes cannot be emulated here")
    sys.exit(77)
for code, options in (1, ["--plant", "slow-adapter"]), (0, []):
    done = check(code, *options)
    assert done.returncode == 0, done
    assert done.stderr == "", f"it succeeds, and complains: {done.stderr}"
for code, options in (0, ["--plant", "slow-adapter"]), (1, []), (3, ["--plant", "slow-adapter"]):
    done = check(code, *options)
    assert done.returncode == 1, done
    assert f"rank 0: the exit code of horing-check is {code}, expected " in done.stderr, done.stderr
