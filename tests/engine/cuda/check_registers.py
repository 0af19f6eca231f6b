#!/usr/bin/env python3
"""Compares the registers and spills that ptxas reports for the kernels with tests/engine/cuda/registers.txt.

Usage: check_registers.py CEILINGS PTXAS_LOG...

A line of CEILINGS: an architecture, the most registers that a kernel may use, the most bytes that it may spill. Exits 77 where
there is no log, or none of the architectures that were compiled has a line: then nothing was checked.
"""
import re
import sys


def kernels(log):
    """(kernel, architecture, registers, bytes spilled) of each entry function in a log of ptxas -v."""
    name = architecture = None
    spilled = 0
    for line in log.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            name, architecture = found.groups()
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = int(found[2]) + int(found[3])
        elif (found := re.search(r"Used (\d+) registers", line)) and name:
            yield name, architecture, int(found[1]), spilled
            name = None


def main(ceilings_file, *logs):
    if not logs:
        print("no kernels here: they were built without a CUDA compiler")
        return 77
    with open(ceilings_file, encoding="utf-8") as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    ceilings = {architecture: (int(registers), int(spills)) for architecture, registers, spills in lines}
    found = []
    for log in logs:
        with open(log, encoding="utf-8") as file:
            found += kernels(file.read())
    if not found:
        print("no kernel in what ptxas said")
        return 1
    checked, bad = 0, 0
    for name, architecture, registers, spilled in sorted(found):
        print(f"{name} {architecture}: {registers} registers, {spilled} bytes spilled")
        if architecture not in ceilings:
            continue
        checked += 1
        most_registers, most_spilled = ceilings[architecture]
        if registers > most_registers or spilled > most_spilled:
            print(f"  more than the {most_registers} registers and {most_spilled} bytes of {ceilings_file}")
            bad += 1
    print(f"{checked} kernels checked, {bad} above the ceiling")
    if checked == 0:
        return 77
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
