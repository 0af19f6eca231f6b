#!/usr/bin/env python3
"""Breaks one line of the engine at a time and counts the seeds of sim_faults that notice.

    python3 tests/simulated/sensitivity.py [--seeds 1000] [--only NAME ...] [--folder build/sensitivity]

Works on a copy of the tree. Each mutant is built and run, which takes about a minute on one core, and half an hour for all of them. A
mutant whose text is no longer in the source is an error: the table below must follow the engine. Exits with 1 if a mutant is not
noticed by any seed. The README beside this file says what was found last. Python 3, git, and what the build needs.
"""
import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINE = "src/engine/host/operation.cpp"
# The name, and what becomes of the source: (text, what replaces the text), each once.
MUTANTS = [
    ("slots are released before they are read",
     [("      *operand++ = message->data;", "      *operand++ = message->data;\n      source.receiver->release();"),
      ("    if (source.receiver) source.receiver->release();\n", "")]),
    ("a value is posted before it is computed",
     [("  switch (step.mode) {\n    case Mode::kSignal:\n      break;",
       "  if (step.sends != Sends::kNothing) post(step, slice);\n"
       "  switch (step.mode) {\n    case Mode::kSignal:\n      break;"), ("    post(step, slice);\n", "")]),
    ("waits for other lanes are skipped", [("if (step.wait_lane < 0) return true;", "if (step.wait_lane >= -1) return true;")]),
    ("a wait ends a slice early", [("other.slice > slice)", "other.slice >= slice)")]),
    ("a wait ends a step early", [("return reached > step.wait_step ||", "return reached >= step.wait_step ||")]),
    ("a wait of the next window is taken for over", [("if (other.window_end <= slice) return false;", "if (other.window_end <= slice) return true;")]),
    ("a scratch queue is read when it is empty", [("if (source.queue->empty()) return {Kind::kValue};\n", "")]),
    ("a scratch queue is filled when it is full", [("if (step.bound->keep_queue->full()) return {Kind::kQueue};\n", "")]),
    ("an average is not scaled", [("arguments.is_final = step.bound->completes;", "arguments.is_final = false;")]),
    ("the window of position 0 is larger by one slice",
     [("lane.window_end = std::min<int64_t>(plan_.settings().window, lane.slices);",
       "lane.window_end = std::min<int64_t>(plan_.settings().window + (plan_.schedule().position == 0), lane.slices);"),
      ("lane.window_end = std::min<int64_t>(lane.window_begin + plan_.settings().window, lane.slices);",
       "lane.window_end = std::min<int64_t>(lane.window_begin + plan_.settings().window + (plan_.schedule().position == 0),\n"
       "                                       lane.slices);")]),
    ("windows after the first are larger by one slice",
     [("std::min<int64_t>(lane.window_begin + plan_.settings().window, lane.slices)",
       "std::min<int64_t>(lane.window_begin + plan_.settings().window + 1, lane.slices)")]),
    ("an operation ends before its messages have left", [("settled_ && plan_.flushed();", "settled_;")]),
    ("messages of another operation are accepted", [("if (message->bytes != slice.bytes || message->tag != slice.tag)", "if (message->bytes != slice.bytes)")]),
    ("position 0 cuts chunks of any size alike",
     [("const Slicing slicing = slicing_.ofChunk(layout_, step.count, element_bytes_);",
       "const Slicing slicing = plan_.schedule().position == 0 ? slicing_ : slicing_.ofChunk(layout_, step.count, element_bytes_);")]),
    ("a landing is told for a message too few",
     [(".messages = static_cast<uint32_t>(end - begin)", ".messages = static_cast<uint32_t>(std::max<int64_t>(end - begin - 1, 1))")]),
    ("a landing begins a slice late",
     [("slicing().range(step.count, begin);", "slicing().range(step.count, std::min(begin + 1, end - 1));")]),
    ("landings are told for the first window alone", [("telling.window += plan_.settings().window;", "telling.window = lane.slices;")]),
]


def copy_of_tree(folder):
    """The files of the working tree that git does not ignore, in `folder`; what is unchanged keeps its time."""
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    for name in filter(None, names):
        source, copy = ROOT / name, folder / name
        if not source.is_file() or (copy.exists() and copy.read_bytes() == source.read_bytes()):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)


def build(folder):
    subprocess.run(["cmake", "--build", "build/release", "--target", "sim_faults"], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def mutated(text, edits):
    for old, new in edits:
        if text.count(old) != 1:
            sys.exit(f"sensitivity.py: {ENGINE} has this {text.count(old)} times, and a mutant needs it once: {old!r}")
        text = text.replace(old, new)
    return text


def noticing(folder, seeds, seconds=900):
    """How many seeds fail. Where one ends the program, or keeps it busy, each is run by itself."""
    program = folder / "build/release/bin/sim_faults"
    try:
        done = subprocess.run([program, "--seeds", f"1..{seeds}"], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return sum(fails(program, seed) for seed in range(1, seeds + 1))
    found = re.search(r": (\d+) failed$", done.stdout.rstrip())
    return int(found.group(1)) if found else sum(fails(program, seed) for seed in range(1, seeds + 1))


def fails(program, seed, seconds=20):
    try:
        return subprocess.run([program, "--seed", str(seed)], capture_output=True, timeout=seconds).returncode != 0
    except subprocess.TimeoutExpired:
        return True


def main():
    parser = argparse.ArgumentParser(description="How many seeds of sim_faults notice a broken line of the engine.")
    parser.add_argument("--seeds", type=int, default=1000, help="(default: 1000)")
    parser.add_argument("--only", action="append", metavar="WORDS", help="only mutants whose name has these words")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "sensitivity", help="for the copy of the tree")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    copy_of_tree(folder)
    original = (folder / ENGINE).read_text(encoding="utf-8")
    mutants = [(name, mutated(original, edits)) for name, edits in MUTANTS
               if not arguments.only or any(words in name for words in arguments.only)]
    subprocess.run(["cmake", "--preset", "release", "-DHORING_CUDA=OFF", "-DHORING_WERROR=OFF"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    unnoticed = 0
    for name, text in [("the engine as it is", original), *mutants]:
        (folder / ENGINE).write_text(text, encoding="utf-8")
        build(folder)
        count = noticing(folder, arguments.seeds)
        if text is original and count != 0:
            sys.exit("sensitivity.py: seeds fail without a mutant")
        print(f"{count:6} of {arguments.seeds} seeds: {name}", flush=True)
        unnoticed += text is not original and count == 0
    (folder / ENGINE).write_text(original, encoding="utf-8")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
