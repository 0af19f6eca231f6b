"""Compares the binary interface of the C headers with that of an earlier revision. `./tools/dev abi` runs it.

usage: abi.py [REVISION]     default: the last tag of a version

Each revision's headers become a small library with debug information, whose functions do nothing, and abidiff compares these:
types, layouts and functions, within seconds and without a build of either revision. tests/layers (exports) sees to it that the real
library has the functions that the headers declare. Numbers in macros are not compared. Ends with 1 if what programs see changed in a
way that they may not survive, and the shared library has the same name; with 77 if there is nothing to compare with, or no abidiff.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FIRST = "horing.h"  # includes its parts


def headers_of(names):
    """The C headers; the one that includes the others first."""
    return sorted((name for name in names if name.endswith(".h")), key=lambda name: (name != FIRST, name))


def run(*command, allowed=(0,)):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode not in allowed:
        sys.exit(f"abi: {' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()}")
    return done


def skip(why):
    print(f"abi: {why}", file=sys.stderr)
    sys.exit(77)


def functions(text):
    """(type, name, parameters) of a header's declarations."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return [(kind.strip(), name, " ".join(parameters.split()))
            for kind, name, parameters in re.findall(r"HORING_API\s+([\w\s*]+?)\s*\b(\w+)\(([^;]*)\);", text)]


def read_headers(root):
    """{name: text} of a tree."""
    return {name: (root / "include/horing" / name).read_text() for name in headers_of(path.name for path in (root / "include/horing").iterdir())}


def interface(headers):
    """The suffix of the shared library's name, from {name: text}."""
    header = "\n".join(headers.values())
    major, minor = (re.search(rf"#define HORING_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR"))
    return major if major != "0" else f"0.{minor}"


def library(headers, folder):
    """A library of functions that do nothing, from {name: text} of the headers."""
    (folder / "horing").mkdir(parents=True)
    for name, text in headers.items():
        (folder / "horing" / name).write_text(text)
    lines = [f"#include <horing/{name}>" for name in headers]
    declared = [each for text in headers.values() for each in functions(text)]
    lines += [f"{kind} {name}({parameters}) {{ {'' if kind == 'void' else f'return ({kind})0;'} }}" for kind, name, parameters in declared]
    (folder / "functions.c").write_text("\n".join(lines) + "\n")
    made = folder / "libhoring.so"
    run("cc", "-std=c99", "-g", "-w", "-shared", "-fPIC", "-fno-eliminate-unused-debug-types", "-I", folder, "-o", made, folder / "functions.c")
    return made, len(declared)


def compare(before, now, folder):
    """(text, whether programs survive) of {name: text} of two revisions' headers."""
    (old, _), (new, count) = library(before, folder / "before"), library(now, folder / "now")
    done = run("abidiff", "--no-added-syms", old, new, allowed=range(16))
    if done.returncode & 3:  # abidiff itself failed
        sys.exit(f"abi: abidiff failed: {done.stderr.strip()}")
    same_name = interface(before) == interface(now)
    text = f"{count} functions, libhoring.so.{interface(now)}, before libhoring.so.{interface(before)}\n{done.stdout}"
    return text, done.returncode == 0 or not same_name


def main():
    root = Path(__file__).resolve().parents[1]
    for program in ("git", "abidiff"):
        if not shutil.which(program):
            skip(f"{program} is not installed")
    # Sources without their history have no tag.
    tags = run("git", "-C", root, "tag", "--list", "v[0-9]*", "--sort=-version:refname", allowed=(0, 128)).stdout.split()
    revision = sys.argv[1] if len(sys.argv) > 1 else next(iter(tags), None)
    if revision is None:
        skip("no version is tagged here; name a revision to compare with")
    now = read_headers(root)
    names = run("git", "-C", root, "ls-tree", "--name-only", f"{revision}:include/horing").stdout.split()
    before = {name: run("git", "-C", root, "show", f"{revision}:include/horing/{name}").stdout for name in headers_of(names)}
    with tempfile.TemporaryDirectory() as folder:
        text, survives = compare(before, now, Path(folder))
    print(f"{revision} to this tree: {text}", end="")
    if not survives:
        sys.exit("abi: programs may not survive this, and the library's name is the same: raise the version (CONTRIBUTING.md)")


if __name__ == "__main__":
    main()
