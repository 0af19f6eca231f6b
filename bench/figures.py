#!/usr/bin/env python3
"""Makes every figure of bench/README.md: runs the commands one after the other and fills the table in.

    python3 bench/figures.py --bin build/release/bin [--only NAME...]

The output of each command is kept in bench/results. With --only, the other rows come from the results there;
`--only` alone runs nothing. Run it on an idle machine. Python 3 and nothing else.
"""
import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))
from figures_report import COMMANDS, summary, table  # noqa: E402
from main_job import kernel  # noqa: E402

RESULTS = Path("bench/results")  # relative to ROOT, where everything runs: results name no path of a machine
LIMIT_S = 3 * 3600
BEGIN, END = "<!-- figures: begin, written by bench/figures.py -->\n", "<!-- figures: end -->\n"


def cpu_model():
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine():
    return {"cpu": cpu_model(), "cores": os.cpu_count(), "kernel": kernel(), "date": time.strftime("%Y-%m-%d")}


def without_places(path):
    """Google Benchmark writes down where and on whose machine it ran."""
    if not path.exists():
        return
    report = json.loads(path.read_text(encoding="utf-8"))
    for place in ("host_name", "executable"):
        report.get("context", {}).pop(place, None)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def measure(name, bin_folder):
    """Runs one command. False if it failed; the results of an earlier run then stay."""
    command = [part.format(bin=bin_folder, results=RESULTS) for part in COMMANDS[name]]
    print(f"== {name}: {' '.join(command)}", file=sys.stderr, flush=True)
    started, output = time.monotonic(), RESULTS / f"{name}.txt"
    with open(f"{output}.new", "w", encoding="utf-8") as file:
        try:
            code = subprocess.run(command, stdout=file, timeout=LIMIT_S, check=False).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            print(error, file=sys.stderr)
            code = -1
    if code != 0:
        print(f"== {name}: FAILED ({code}), see {output}.new", file=sys.stderr)
        return False
    os.replace(f"{output}.new", output)
    without_places(RESULTS / f"{name}.json")
    (RESULTS / "machine.json").write_text(json.dumps(machine(), indent=1) + "\n", encoding="utf-8")
    print(f"== {name}: done in {time.monotonic() - started:.0f} s", file=sys.stderr)
    return True


def fill_in(readme, text):
    old = readme.read_text(encoding="utf-8")
    before, rest = old.split(BEGIN)
    after = rest.split(END)[1]
    readme.write_text(before + BEGIN + text + END + after, encoding="utf-8")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Makes every figure of bench/README.md and fills its table in.")
    parser.add_argument("--bin", default="build/release/bin", help="folder of the programs")
    parser.add_argument("--only", nargs="*", metavar="NAME", choices=list(COMMANDS), help=", ".join(COMMANDS))
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    bin_folder = os.path.relpath(arguments.bin, ROOT)
    os.chdir(ROOT)
    RESULTS.mkdir(exist_ok=True)
    names = list(COMMANDS) if arguments.only is None else arguments.only
    failed = [name for name in names if not measure(name, bin_folder)]
    print(summary(RESULTS))
    fill_in(Path("bench/README.md"), table(RESULTS))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nfigures.py: interrupted")
