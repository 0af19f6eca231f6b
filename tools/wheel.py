#!/usr/bin/env python3
"""What a wheel needs of the machine that it is installed on, as auditwheel (from pip) finds it.

Fails where pip would refuse it on a system with --glibc, or where it needs a library that it does not bring.
"""

import argparse
import json
import re
import subprocess
import zipfile
from pathlib import PurePosixPath


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel")
    parser.add_argument("--glibc", default="2.34", help="the oldest that it has to run with (default 2.34)")
    arguments = parser.parse_args()
    try:
        shown = subprocess.run(["auditwheel", "show", "--json", arguments.wheel], capture_output=True, text=True)
    except FileNotFoundError:
        parser.error("auditwheel is not on PATH: pip install auditwheel")
    if shown.returncode:
        parser.exit(2, f"auditwheel, which has to know --json (6.8 does), failed:\n{shown.stderr}")
    facts = json.loads(shown.stdout)
    symbols, foreign = facts["versioned_symbols"], sorted(facts["external_libs"])
    with zipfile.ZipFile(arguments.wheel) as wheel:
        of_the_system = sorted(set(symbols) - set(foreign) - {PurePosixPath(name).name for name in wheel.namelist()})
    tag = re.match(r"manylinux_(\d+_\d+)_", facts["sym_tag"])
    newest = max((numbers(version[6:]) for library in symbols for version in symbols[library] if re.fullmatch(r"GLIBC_[\d.]+", version)),
                 default=[0])
    print(f"platform: {facts['sym_tag']}, by the symbols that it looks for\n"
          f"glibc: {'.'.join(map(str, newest))}; where the platform names a newer one, another library's symbols ask for it\n"
          f"libraries of the system: {', '.join(of_the_system)}\n"
          f"libraries that it should bring: {', '.join(foreign) or 'none'}")
    is_too_new = tag is None or numbers(tag[1].replace("_", ".")) > numbers(arguments.glibc)
    return 1 if foreign or is_too_new else 0


if __name__ == "__main__":
    raise SystemExit(main())
