"""Fails when a library shows symbols that are not its own, or has objects that end before the program does.

usage: check_exports.py NM libhoring.so libhoring.a libnccl.so libnccl_static.a
"""
import os
import subprocess
import sys

# What begins the names of each, and one that it has: a library that shows nothing would pass for the wrong reason.
OWN = {"libhoring": (("horing",), "horingAllReduce"), "libnccl": (("nccl", "pnccl"), "pncclAllReduce"),
       "libnccl_static": (("nccl", "pnccl", "horing"), "ncclAllReduce")}


def visible(nm, library):
    """Names that `library` defines for others."""
    options = ["-D"] if ".so" in library else ["-g"]
    output = subprocess.run([nm, *options, "--defined-only", "--format=posix", library], check=True,
                            capture_output=True, text=True).stdout
    return [line.split()[0] for line in output.splitlines() if line and not line.endswith(":")]


def ends_early(nm, library):
    """Whether objects of `library` are destroyed by exit(): handlers of exit() that call it would use them after that."""
    output = subprocess.run([nm, "-D", "--undefined-only", "--format=posix", library], check=True, capture_output=True,
                            text=True).stdout
    return [name for name in ("__cxa_atexit", "__cxa_thread_atexit") if name in output]


def main():
    nm, *libraries = sys.argv[1:]
    failed = False
    for library in libraries:
        names = visible(nm, library)
        own, wanted = OWN[os.path.basename(library).split(".")[0]]
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
