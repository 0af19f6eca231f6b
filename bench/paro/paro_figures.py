#!/usr/bin/env python3
"""PaRO's figures: time, memory and traffic of its strategies on emulated nodes, against the formulas and the planner's prediction.

    python3 bench/paro/paro_figures.py --bin build/release/bin [--quick] [--only order training bytes memory overhead loss]
            [--strategies GGG GNG] [--tokens 4] [--out build/bench/paro]

Prints each figure with its goal, and writes the measurements to the --out folder. Needs emulated nodes (horing-run --check-nodes).
Python 3 and nothing else.
"""
import argparse
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

STRATEGIES = "NNN NNI NII INI III NNG NIG NGG ING IIG IGG GNG GIG GGG".split()
MODEL = ["--precision", "mixed", "--hidden", "1280", "--layers", "2"]  # 16 bytes of state for each of 2.3 M parameters: over 32 MiB
PARAMETERS = 256 * 16 + 257 * 1280 + 1281 * 1280 + 1281 * 256
RATE_MBIT = 100
FIGURES = ["order", "training", "bytes", "memory", "overhead", "loss"]


class Bench:
    def __init__(self, arguments):
        self.programs = Path(arguments.bin).resolve()
        self.out = Path(arguments.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.steps = arguments.steps
        self.quick = arguments.quick
        self.tokens = arguments.tokens
        self.strategies = arguments.strategies

    def program(self, name):
        path = self.programs / name
        if not path.exists():
            sys.exit(f"paro_figures.py: {path} is not there: build first (./tools/dev build), or give --bin")
        return str(path)

    def run(self, nodes, members, rate, command, extra=()):
        """Runs horing-paro on nodes x members ranks; ends the script with its words when it fails."""
        full = [self.program("horing-run"), "-n", str(nodes * members), "--nodes", str(nodes), "--rate", str(rate), "--timeout", "900",
                *extra, "--", self.program("horing-paro"), *command]
        done = subprocess.run(full, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(full)}\nended with {done.returncode}:\n{done.stderr[-3000:]}")
        return done.stdout

    def train(self, nodes, members, rate, options, extra=()):
        """What `horing-paro train` measured, an entry per strategy."""
        path = self.out / "train.json"
        self.run(nodes, members, rate, ["train", *options, "--json", str(path.resolve())], extra)
        return json.loads(path.read_text(encoding="utf-8"))

    def replay(self, nodes, members, rate, strategy, accumulate, steps, extra=(), options=()):
        return self.train(nodes, members, rate, ["--replay", "--strategy", strategy, *MODEL, "--accumulate", str(accumulate),
                                                 "--steps", str(steps), "--tokens", "16", *options], extra)

    def keep(self, name, values):
        (self.out / f"{name}.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def say(figure, goal, measured, met):
    print(f"| {figure} | {goal} | {measured}: {'met' if met else 'MISSED'} |", flush=True)


def order(bench):
    """Step times of all strategies on 4 x 4 ranks, computation off, against the planner's prediction from measured costs."""
    costs, accumulate = bench.out / "costs.json", 10
    bench.run(4, 4, RATE_MBIT, ["measure", "--output", str(costs.resolve())])
    plan = json.loads(subprocess.run(
        [bench.program("horing-paro"), "plan", "--params", str(PARAMETERS), "--nodes", "4", "--ranks", "4", "--accumulate",
         str(accumulate), "--memory", "1GB", "--costs", str(costs), "--json"], capture_output=True, text=True, check=True).stdout)
    predicted = {s["name"]: s["communication_seconds"] for s in plan["strategies"]}
    measured = {r["strategy"]: r["median_step_seconds"] for r in bench.replay(4, 4, RATE_MBIT, "all", accumulate, bench.steps + 1)}
    bench.keep("order", {"predicted": predicted, "measured": measured})
    for name in STRATEGIES:
        print(f"    {name}  predicted {predicted[name]:7.3f} s   measured {measured[name]:7.3f} s", flush=True)
    pairs = [(a, b) for a, b in itertools.combinations(STRATEGIES, 2)
             if max(predicted[a], predicted[b]) > 1.1 * min(predicted[a], predicted[b])]
    wrong = [f"{a}/{b}" for a, b in pairs if (predicted[a] < predicted[b]) != (measured[a] < measured[b])]
    right = 1 - len(wrong) / len(pairs)
    say_factors("computation off", measured)
    say("pairs predicted more than 10 % apart that are measured in that order", "≥ 95 %",
        f"{100 * right:.1f} % of {len(pairs)}" + (f" (not {', '.join(wrong)})" if wrong else ""), right >= 0.95)


def say_factors(work, measured):
    say(f"step time of GGG (ZeRO-3) / IIG, {work}", "≥ 3", f"{measured['GGG'] / measured['IIG']:.2f}", measured["GGG"] >= 3 * measured["IIG"])
    best = min(measured["NIG"], measured["NII"])
    say(f"step time of NGG (ZeRO-2) / the better of NIG, NII, {work}", "≥ 2", f"{measured['NGG'] / best:.2f}", measured["NGG"] >= 2 * best)


def training(bench):
    """Step times with computation, which shares the cores."""
    measured = {}
    for strategy in ["GGG", "IIG", "NGG", "NIG", "NII"]:
        run = bench.train(4, 4, RATE_MBIT, ["--strategy", strategy, *MODEL, "--accumulate", "10", "--steps", str(bench.steps + 1),
                                            "--tokens", str(bench.tokens)])
        measured[strategy] = run[0]["median_step_seconds"]
        print(f"    {strategy}  measured {measured[strategy]:7.3f} s", flush=True)
    bench.keep("training", {"tokens": bench.tokens, **measured})
    say_factors(f"{bench.tokens} tokens per rank and micro-step", measured)


def link_bytes(bench, nodes, members, strategy, accumulate, steps):
    """Bytes into each node's link over a whole run, as the kernel counts them."""
    path = bench.out / "bytes.json"
    bench.replay(nodes, members, 1000, strategy, accumulate, steps, ["--report-bytes", str(path.resolve())])
    return [i["received_bytes"]["during"] for i in json.loads(path.read_text(encoding="utf-8"))["interfaces"]]


def formula_bytes(bench, nodes, members, accumulate):
    plan = json.loads(subprocess.run(
        [bench.program("horing-paro"), "plan", "--params", str(PARAMETERS), "--nodes", str(nodes), "--ranks", str(members),
         "--accumulate", str(accumulate), "--memory", "1GB", "--json"], capture_output=True, text=True, check=True).stdout)
    return {s["name"]: s["traffic_bytes"]["slow_per_node_and_step"] for s in plan["strategies"]}


def bytes_over_links(bench):
    """Two runs that differ by some steps: the difference is the traffic of the steps."""
    kept, worst = {}, (0, "")
    jobs = [((2, 4), 4)] if bench.quick else itertools.product([(2, 4), (4, 4)], [1, 4, 10])
    for (nodes, members), accumulate in jobs:
        formula = formula_bytes(bench, nodes, members, accumulate)
        for strategy in STRATEGIES:
            few, many = (link_bytes(bench, nodes, members, strategy, accumulate, steps) for steps in (1, 1 + bench.steps))
            ratios = [(b - a) / bench.steps / formula[strategy] for a, b in zip(few, many)]
            kept[f"{nodes}x{members} s={accumulate} {strategy}"] = ratios
            worst = max(worst, max((abs(r - 1), f"{r:.4f} with {strategy} on {nodes} x {members}, s = {accumulate}") for r in ratios))
        say(f"bytes over a node's link / formula, {nodes} x {members}, s = {accumulate}", "1 ± 0.03", f"{worst[1]} at worst so far",
            worst[0] <= 0.03)
        bench.keep("bytes", kept)


def memory(bench):
    """A rank's state, as counted by the client's allocations."""
    runs = bench.replay(2, 4, 0, "all", 1, 1)
    ratios = {r["strategy"]: r["state_bytes"] / r["formula_state_bytes"] for r in runs}
    bench.keep("memory", runs)
    worst = max(ratios, key=lambda name: abs(ratios[name] - 1))
    largest = max(r["gathered_bytes"] + r["gradient_buffer_bytes"] for r in runs)
    say("state kept by a rank / formula, 2 x 4", "1 ± 0.02", f"{ratios[worst]:.4f} with {worst} at worst; besides, at most "
        f"{largest / 1e6:.1f} MB for gathered parameters and two gradient buckets", abs(ratios[worst] - 1) <= 0.02)


def overhead(bench):
    """A step of the client, and the same step by hand on the raw collectives, in turns in one run. Nothing is computed; by hand, too,
    gradients are cleared before a micro-step and added up after it."""
    kept = {}
    for strategy in bench.strategies or (["NII", "GGG"] if bench.quick else STRATEGIES):
        text = bench.run(4, 4, RATE_MBIT, ["measure", "--strategy", strategy, "--params", str(PARAMETERS), "--accumulate", "10",
                                           "--repetitions", str(bench.steps), "--client"])
        by_hand, client = map(float, text.split())
        kept[strategy] = {"by_hand": by_hand, "client": client}
        print(f"    {strategy}  by hand {by_hand:7.3f} s   client {client:7.3f} s", flush=True)
    worst = max(kept, key=lambda name: kept[name]["client"] / kept[name]["by_hand"])
    ratio = kept[worst]["client"] / kept[worst]["by_hand"]
    say(f"step of the client / by hand on the raw collectives, 4 x 4, {len(kept)} strategies", "≤ 1.02", f"{ratio:.3f} with {worst} at worst", ratio <= 1.02)
    bench.keep("overhead", kept)


def loss(bench):
    """Every strategy learns what one rank learns from the same batches. In fp32 another order of a gradient's sum over the batch changes
    it by up to batch * 2^-24, and every step adds its own: the bound of step k is k * batch * 2^-24."""
    batch, path = 96, bench.out / "alone.json"
    for precision, (nodes, members), accumulate in [("fp64", (2, 2), 3), ("fp64", (2, 4), 2), ("fp32", (2, 4), 2)]:
        model = ["--precision", precision, "--hidden", "61", "--layers", "2", "--steps", "100", "--batch", str(batch)]
        subprocess.run([bench.program("horing-paro"), "train", *model, "--json", str(path)], check=True, stdout=subprocess.DEVNULL)
        alone = json.loads(path.read_text(encoding="utf-8"))[0]["losses"]
        bound = [1e-10 if precision == "fp64" else k * batch * 2 ** -24 for k in range(1, 101)]
        runs = bench.train(nodes, members, 0, ["--strategy", "all", "--accumulate", str(accumulate), "--bucket", "50kB", *model])
        share = {r["strategy"]: max(abs(a / b - 1) / most for a, b, most in zip(r["losses"], alone, bound)) for r in runs}
        apart = {r["strategy"]: max(abs(a / b - 1) for a, b in zip(r["losses"], alone)) for r in runs}
        worst = max(share, key=share.get)
        bench.keep(f"loss_{precision}_{nodes}x{members}", apart)
        say(f"loss of steps 1 to 100 against one rank, {precision}, all 14 on {nodes} x {members}",
            "≤ 1e-10" if precision == "fp64" else f"≤ step x {batch} x 2^-24 ({bound[-1]:.1e} at step 100)",
            f"{apart[worst]:.1e} with {worst} at worst", share[worst] <= 1)


def main():
    os.environ.setdefault("HORING_CACHE_DIR", "off")  # measurements kept on this machine must not affect figures
    parser = argparse.ArgumentParser(description="PaRO's figures on emulated nodes.")
    parser.add_argument("--bin", default="build/release/bin", help="folder of horing-run and horing-paro")
    parser.add_argument("--out", default="build/bench/paro", help="folder for the measurements")
    parser.add_argument("--only", nargs="+", choices=FIGURES, default=FIGURES, help="which figures")
    parser.add_argument("--quick", action="store_true", help="fewer shapes and turns")
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, metavar="STRATEGY", help="which ones overhead is about")
    parser.add_argument("--tokens", type=int, default=4, help="of each rank in a micro-step of training")
    parser.add_argument("--steps", type=int, default=3, help="optimizer steps that count, of each run")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    print(f"| figure | goal | measured ({os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}) |\n|---|---|---|", flush=True)
    jobs = {"order": order, "training": training, "bytes": bytes_over_links, "memory": memory, "overhead": overhead, "loss": loss}
    for name in arguments.only:
        jobs[name](bench)


if __name__ == "__main__":
    main()
