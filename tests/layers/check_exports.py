"""Fails when a library shows symbols that are not horing's.

usage: check_exports.py NM libhoring.so libhoring.a
"""
import subprocess
import sys


def visible(nm, library):
    """Names that `library` defines for others."""
    options = ["-D"] if ".so" in library else ["-g"]
    output = subprocess.run([nm, *options, "--defined-only", "--format=posix", library], check=True,
                            capture_output=True, text=True).stdout
    return [line.split()[0] for line in output.splitlines() if line and not line.endswith(":")]


def main():
    nm, *libraries = sys.argv[1:]
    failed = False
    for library in libraries:
        names = visible(nm, library)
        foreign = [name for name in names if not name.startswith("horing")]
        print(f"{library}: {len(names)} symbols, {len(foreign)} of them not horing's")
        print("".join(f"  {name}\n" for name in foreign[:40]), end="")
        # A library that shows nothing would pass for the wrong reason.
        failed = failed or bool(foreign) or "horingAllReduce" not in names
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
