"""Fails when a library shows symbols that are not its own, or has objects that end before the program does.

usage: check_exports.py NM libhoring.so libhoring.a libnccl.so libnccl_static.a
"""
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import abi  # noqa: E402

# What begins the names of each, and one that it has: a library that shows nothing would pass for the wrong reason.
OWN = {"libhoring": (("horing",), "horingAllReduce"), "libnccl": (("nccl", "pnccl"), "pncclAllReduce"),
       "libnccl_static": (("nccl", "pnccl", "horing"), "ncclAllReduce")}


def visible(nm, library):
    """Names that `library` defines for others, each with "@@" and its version if it has one."""
    options = ["-D"] if ".so" in library else ["-g"]
    output = subprocess.run([nm, *options, "--defined-only", "--format=posix", library], check=True,
                            capture_output=True, text=True).stdout
    return [line.split()[0] for line in output.splitlines() if line and not line.endswith(":")]


def ends_early(nm, library):
    """Whether objects of `library` are destroyed by exit(): handlers of exit() that call it would use them after that."""
    output = subprocess.run([nm, "-D", "--undefined-only", "--format=posix", library], check=True, capture_output=True,
                            text=True).stdout
    return [name for name in ("__cxa_atexit", "__cxa_thread_atexit") if name in output]


def unversioned(library, names):
    """Those of libhoring.so's symbols without the version of its interface, as its file name has it: HORING_0.1 of libhoring.so.0.1.0."""
    name, _, version = os.path.basename(library).partition(".so.")
    if name != "libhoring":
        return []
    major, minor, _ = version.split(".")
    interface = f"HORING_{major}" if major != "0" else f"HORING_0.{minor}"
    return [name for name in names if name != interface and not name.endswith(f"@@{interface}")]


def not_as_declared(library, names):
    """Functions that the C headers declare and libhoring.so lacks, or the other way round."""
    if not os.path.basename(library).startswith("libhoring.so"):
        return []
    declared = {name for text in abi.read_headers(ROOT).values() for _, name, _ in abi.functions(text)}
    return sorted(declared ^ set(names))


def main():
    nm, *libraries = sys.argv[1:]
    failed = False
    for library in libraries:
        names = visible(nm, library)
        own, wanted = OWN[os.path.basename(library).split(".")[0]]
        plain = unversioned(library, names)
        if plain:
            print(f"{library}: without the version of the interface: {', '.join(plain[:5])}")
            failed = True
        names = [name.partition("@@")[0] for name in names if not name.startswith("HORING_")]
        differing = not_as_declared(library, names)
        if differing:
            print(f"{library}: not as the headers declare: {', '.join(differing[:5])}")
            failed = True
        foreign = [name for name in names if not name.startswith(own)]
        print(f"{library}: {len(names)} symbols, {len(foreign)} of them not its own")
        print("".join(f"  {name}\n" for name in foreign[:40]), end="")
        failed = failed or bool(foreign) or wanted not in names
        if ".so" in library and ends_early(nm, library):
            print(f"  has objects that end before the program does: {', '.join(ends_early(nm, library))}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
