#!/usr/bin/env python3
"""Plants faults in emulated nodes, and counts how often horing-check names them and nothing else.

    python3 bench/check_faults.py --bin build/release/bin [--nodes 8 --runs 10] [--fault "sends 80%" ...] [--out build/bench/check_faults.json]
    python3 bench/check_faults.py --bin build/release/bin --nodes 16 --halving

Every node has an adapter of 200 Mbit/s. A fault is planted in one of them, or in several, that follow from --seed:
  adapter 50%, 80%, 90%   an adapter at this share of the rate, in both directions
  sends 50%, 80%, 90%     the same in the sending direction alone
  path 50%                what one node sends to one other is as slow
  three                   an adapter at 50 %, another node that sends at 80 %, and a path at 50 %
  mtu                     the MTU of a node is 1500
  rail 50%, 80%           every node has two adapters, and one of them sends as slowly on one node
  uplink                  four nodes share an uplink that carries as much as two of their adapters
  latency                 what a node sends and receives takes 200 us longer (delay_link.py)
  loss 1%, 0.1%           a node drops so many of the packets that arrive (needs nft, from the package nftables)
  half a core             a node's process is stopped half of the time, 4 ms of 8
  memory                  a program that copies memory runs on a node, which all nodes of one machine feel
  nothing                 nothing
A run is right if the verdict confirms what was planted and nothing else. Memory that all nodes share slows none of them more than others: then
the right verdict names none. A node whose process stops may be named for whatever follows from that, and no other. Of an uplink that half
of the nodes share, either half may be named. --halving finds one slow adapter as people do without the check: all_reduce_perf on halves of
the nodes, then on halves of the slower half, and at last on each of two nodes with a good one; in turns with the check. Results are kept in
--out, and a further call adds to them. Ends with a table. Needs what horing-run needs for emulated nodes, and tc. Python 3 and nothing else.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RATE_MBIT = 200
SHARING = 4  # nodes behind an uplink
DELAY_LINK = Path(__file__).resolve().with_name("delay_link.py")
LIMIT_S = 180  # of one run
# One line of tc, to have what this node sends limited.
SLOWER = "tc class change dev {2} parent 1: classid 1:1 htb rate {0}mbit burst 48000b ceil {1}kbit cburst 8977b quantum 60000"
TO_ONE = ("tc class add dev r0 parent 1: classid 1:2 htb rate {0}mbit burst 48000b ceil {1}kbit cburst 8977b quantum 60000 && "
          "tc qdisc add dev r0 parent 1:2 bfifo limit 524288 && "
          "tc filter add dev r0 parent 1: protocol ip u32 match ip dst 10.77.0.{2}/32 flowid 1:2")
DROPS = ("nft add table ip planted && nft 'add chain ip planted in {{ type filter hook prerouting priority 0; }}' && "
         "nft add rule ip planted in numgen random mod 1000 '<' {0} drop")
LATER = "mkfifo /dev/shm/ready; nice -n -15 python3 {0} r0 200 > /dev/shm/ready & read ready < /dev/shm/ready"
# Runs beside the node's process, whose id it is given.
HALF = "(while kill -STOP $$ && sleep 0.004 && kill -CONT $$ && sleep 0.004; do :; done) 2>/dev/null &"
HOG = "(python3 -c 'a = bytearray(1 << 28)\nwhile True: b = bytes(a)' & hog=$!; while kill -0 $$; do sleep 0.2; done; kill $hog) 2>/dev/null &"


class Plan:
    """What is planted: the rate of each node, commands to be run in nodes, and what the check has to find."""

    def __init__(self, nodes):
        self.rates, self.commands, self.findings, self.mtu, self.stopped = [RATE_MBIT] * nodes, {}, set(), None, None
        self.rails, self.uplink = 1, []

    def adapter(self, node, percent):
        self.rates[node] = RATE_MBIT * percent // 100
        self.findings |= {("rate", "sends", node, None, None), ("rate", "receives", node, None, None)}

    def sends(self, node, percent, rail=None):
        mbit = RATE_MBIT * percent // 100
        self.commands[node] = SLOWER.format(mbit, mbit * 1050, f"r{rail or 0}")
        self.findings.add(("rate", "sends", node, None, rail))

    def path(self, node, to, percent):
        mbit = RATE_MBIT * percent // 100
        self.commands[node] = TO_ONE.format(mbit, mbit * 1050, to + 1)
        self.findings.add(("rate", "path", node, to, None))


def planted(fault, nodes, chance):
    plan, (node, other, third, fourth) = Plan(nodes), chance.sample(range(nodes), 4)
    kind, _, amount = fault.partition(" ")
    if kind == "adapter":
        plan.adapter(node, int(amount.rstrip("%")))
    elif kind == "sends":
        plan.sends(node, int(amount.rstrip("%")))
    elif kind == "path":
        plan.path(node, other, int(amount.rstrip("%")))
    elif kind == "three":
        plan.adapter(node, 50)
        plan.sends(other, 80)
        plan.path(third, fourth, 50)
    elif kind == "mtu":
        plan.commands[node], plan.mtu = "ip link set r0 mtu 1500", node
    elif kind == "rail":
        plan.rails = 2
        plan.sends(node, int(amount.rstrip("%")), rail=chance.randrange(2))
    elif kind == "uplink":
        first = chance.randrange(nodes - SHARING + 1)
        plan.uplink = list(range(first, first + SHARING))
    elif kind == "latency":
        plan.commands[node] = LATER.format(DELAY_LINK)
        plan.findings |= {("latency", "sends", node, None, None), ("latency", "receives", node, None, None)}
    elif kind == "loss":
        plan.commands[node] = DROPS.format(round(float(amount.rstrip("%")) * 10))
        plan.findings.add(("loss", "receives", node, None, None))
    elif kind in ("half", "memory"):
        plan.commands[node] = HALF if kind == "half" else HOG
        plan.stopped = node if kind == "half" else None
    return plan


FAULTS = ["nothing", "adapter 50%", "adapter 80%", "adapter 90%", "sends 50%", "sends 80%", "sends 90%", "path 50%", "three", "rail 50%", "rail 80%", "uplink",
          "latency", "mtu", "loss 1%", "loss 0.1%", "half a core", "memory"]


def verdict_of(programs, plan, limit="60s", keep=None):
    cases = "".join(f"{node}) {command} ;; " for node, command in plan.commands.items())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "check.json"
        script = f"case $HORING_RUN_NODE in {cases} esac; exec {programs / 'horing-check'} --time {limit} --json {path}"
        command = [programs / "horing-run", "-n", len(plan.rates), "--nodes", len(plan.rates), "--timeout", LIMIT_S, "--keep-going", "--rate",
                   ",".join(map(str, plan.rates)), "--rails", plan.rails,
                   *(["--uplink", f"{plan.uplink[0]}-{plan.uplink[-1]}={2 * RATE_MBIT}"] if plan.uplink else []), "--", "sh", "-c", script]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=dict(os.environ, HORING_CACHE_DIR="off"))
        if not path.exists():
            sys.exit(f"check_faults.py: {script} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        if keep:
            shutil.copy(path, keep)
        return json.loads(path.read_text(encoding="utf-8"))


def found(verdict):
    """The confirmed findings as (quantity, part, node, to, rail), nodes by number."""
    number = {name: index for index, name in enumerate(verdict["nodes"])}
    return {(one["quantity"], one["part"], number[one["node"]], number[one["to"]] if "to" in one else None, one.get("rail"))
            for one in verdict["findings"] if one["confirmed"]}


def uplinks_are_right(plan, verdict):
    """The group named in both directions; or the others, if these are as many."""
    named = [[verdict["nodes"].index(node) for node in one["nodes"]] for one in verdict["uplinks"] if one["confirmed"]]
    others = [node for node in range(len(plan.rates)) if node not in plan.uplink]
    return not named if not plan.uplink else \
        len(named) == 2 and (named[0] == named[1] == plan.uplink or (named[0] == named[1] == others and len(others) == SHARING))


def is_right(plan, verdict):
    names_mtu = any("MTU" in one["fact"] and one["nodes"] == [verdict["nodes"][plan.mtu]] for one in verdict["differences"]) \
        if plan.mtu is not None else True
    # A node behind a slow uplink has findings of its own, which the text leaves out.
    said = {finding for finding in found(verdict)
            if finding[2] != plan.stopped and not (finding[2] in plan.uplink and finding[:2] in (("rate", "sends"), ("rate", "receives")))}
    return said == plan.findings and uplinks_are_right(plan, verdict) and not verdict["cut_short"] and names_mtu


def seconds_of(programs, rates):
    """Of an all-reduce of 16 MiB on nodes with these rates, as all_reduce_perf prints it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out.json"
        command = [programs / "horing-run", "-n", len(rates), "--nodes", len(rates), "--timeout", LIMIT_S, "--rate", ",".join(map(str, rates)),
                   "--", programs / "all_reduce_perf", "-b", "16M", "-e", "16M", "-n", "3", "-w", "1", "-c", "0", "-J", path]
        subprocess.run([str(word) for word in command], check=True, capture_output=True, env=dict(os.environ, HORING_CACHE_DIR="off"))
        return json.loads(path.read_text(encoding="utf-8"))["results"][0]["out_of_place"]["time"]


def halve(programs, rates):
    """The slow node, and how many runs it took to find it."""
    suspects, good, runs = list(range(len(rates))), None, 0
    while len(suspects) > 1:
        halves = suspects[:len(suspects) // 2], suspects[len(suspects) // 2:]
        times = [seconds_of(programs, [rates[node] for node in (half if len(half) > 1 else [*half, good])]) for half in halves]
        runs += len(halves)
        suspects, good = (halves[0], halves[1][0]) if times[0] > times[1] else (halves[1], halves[0][0])
    return suspects[0], runs


def compare_with_halving(programs, nodes, chance, times):
    for _ in range(times):
        plan, slow = Plan(nodes), chance.randrange(nodes)
        plan.adapter(slow, 50)
        began = time.monotonic()
        named, runs = halve(programs, plan.rates)
        halved_s, began = time.monotonic() - began, time.monotonic()
        verdict = verdict_of(programs, plan)
        print(f"{nodes} nodes, node{slow} at 50 %: halving names node{named} after {runs} runs in {halved_s:.0f} s; "
              f"the check is {'right' if is_right(plan, verdict) else 'WRONG'} after one in {time.monotonic() - began:.0f} s", flush=True)


def table(results):
    text = f"{'nodes':>5} {'fault':<12} {'right':>10} {'missed':>7} {'wrong':>6} {'seconds':>8}\n"
    for (nodes, fault) in dict.fromkeys((one["nodes"], one["fault"]) for one in results):
        runs = [one for one in results if (one["nodes"], one["fault"]) == (nodes, fault)]
        seconds = sorted(one["seconds"] for one in runs)[len(runs) // 2]
        text += (f"{nodes:5} {fault:<12} {sum(one['right'] for one in runs):4} of {len(runs):<3} {sum(bool(one['missed']) for one in runs):7} "
                 f"{sum(bool(one['wrong']) for one in runs):6} {seconds:8.1f}\n")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"))
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--runs", type=int, default=10, help="of each fault (default: 10)")
    parser.add_argument("--fault", action="append", choices=FAULTS, metavar="FAULT", help="only this one")
    parser.add_argument("--halving", action="store_true", help="compare with halves of the nodes and all_reduce_perf, --runs times")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time", default="60s", help="of a check, at most (default: 60s)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what each check measured, as its --json")
    parser.add_argument("--out", type=Path, default=Path("build/bench/check_faults.json"))
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    results = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else []
    chance = random.Random(arguments.seed)
    if arguments.halving:
        return compare_with_halving(arguments.bin.resolve(), arguments.nodes, chance, arguments.runs)
    for number in range(arguments.runs):
        for fault in arguments.fault or FAULTS:
            plan = planted(fault, arguments.nodes, chance)
            name = f"{arguments.nodes} {fault} {arguments.seed} {number}.json".replace(" ", "_")
            verdict = verdict_of(arguments.bin.resolve(), plan, arguments.time, arguments.keep / name if arguments.keep else None)
            says = found(verdict)
            one = {"nodes": arguments.nodes, "fault": fault, "right": is_right(plan, verdict), "missed": sorted(map(str, plan.findings - says)),
                   "wrong": [] if is_right(plan, verdict) else sorted(map(str, says - plan.findings)) + list(map(str, verdict["uplinks"])),
                   "seconds": verdict["seconds"], "least_loss": verdict["least_loss"], "cut_short": verdict["cut_short"]}
            results.append(one)
            arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            print(f"run {number + 1} of {arguments.runs}, {arguments.nodes} nodes, {fault}: "
                  f"{'right' if one['right'] else 'NOT RIGHT'}; missed {one['missed']}, wrong {one['wrong']}"
                  f"{', ended early: ' + one['cut_short'] if one['cut_short'] else ''}", file=sys.stderr, flush=True)
    print(table(results), end="")
    return 0 if all(one["right"] for one in results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\ncheck_faults.py: interrupted")
