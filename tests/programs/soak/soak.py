#!/usr/bin/env python3
"""Random jobs of real processes for a given time: checks every result, kills ranks at random, looks for leaks.

Each job has its shape, settings, surroundings and collectives from a seed. A third of them lose a rank: then the others must end with an
error in time, and leave nothing behind. Ends with 1 at the first failed job, and prints how to run it again.
"""
import argparse
import dataclasses
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import surroundings

ENDED = re.compile(r"soak rank (\d+) ended rounds (\d+) collectives (\d+) bytes (\d+) fds (\d+) (\d+) rss_kib (\d+) (\d+) error (\d+) ?(.*)")
MOST_RSS_GROWTH_KIB = 48 * 1024
PATIENCE_S = 60  # for init, for errors to arrive, and for a busy machine
MARK = "HORING_TESTS_SOAK"


@dataclasses.dataclass
class Job:
    seed: int
    ranks: int
    nodes: int
    settings: dict
    seconds: float
    victim: int | None
    kill_after_ms: int
    there: surroundings.Surroundings

    def command(self, programs):
        run = [str(programs / "horing-run"), "-n", str(self.ranks), "--keep-going", "--timeout", str(self.seconds + PATIENCE_S)]
        if self.nodes:
            run += ["--nodes", str(self.nodes)]
        run += self.there.horing_run_options(self.nodes)
        rank = [str(programs / "horing_soak_rank"), str(self.seed), str(self.seconds)]
        if self.victim is not None:
            rank += [f"victim={self.victim}:{self.kill_after_ms}"]
        return run + ["--"] + self.there.before_rank(self.nodes) + rank + self.there.rank_words()

    def describe(self):
        where = f"{self.nodes} nodes" if self.nodes else "one node"
        settings = " ".join(f"{name[len('HORING_'):].lower()}={value}" for name, value in self.settings.items())
        loss = f", rank {self.victim} killed after {self.kill_after_ms} ms" if self.victim is not None else ""
        return f"seed {self.seed}: {self.ranks} ranks on {where}{loss} {settings} {self.there.describe()}"


def draw_job(seed, seconds, nodes_work, kit):
    dice = random.Random(seed)
    ranks = dice.choice([2, 3, 4, 4, 5, 6, 8])
    nodes = 2 if nodes_work and ranks % 2 == 0 and dice.random() < 0.6 else 0
    window = dice.choice([1, 2, 4, 4, 6])
    settings = {
        "HORING_TESTS_WINDOW": window,
        "HORING_TESTS_SLOTS": window + dice.choice([1, 2, 4]),
        "HORING_TESTS_SOCKET_SLOTS": window + dice.choice([1, 8, 28]),
        "HORING_SLICE_BYTES": dice.choice([512, 4096, 65536, 65536]),
    }
    if dice.random() < 0.3:
        settings["HORING_ALGO"] = dice.choice(["ring", "ho_ring", "ho_ring_direct"])
    if dice.random() < 0.3:
        settings["HORING_TRANSPORTS"] = "socket"
    if dice.random() < 0.3:
        settings["HORING_SOCKET_STREAMS"] = dice.choice([2, 3])
    victim = dice.randrange(ranks) if dice.random() < 0.35 else None
    kill_after_ms = dice.randrange(int(seconds * 1000))
    there = surroundings.draw(dice, ranks, nodes, kit) if kit else surroundings.Surroundings()
    return Job(seed, ranks, nodes, settings, seconds, victim, kill_after_ms, there)


def left_processes(token):
    """Processes that carry the mark of our job in their environment."""
    left = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARK}={token}".encode() in entry.read_bytes():
                left.append(entry.parent.name)
        except OSError:
            pass
    return left


def judge(job, code, output, everything):
    """The errors of a job that has ended, and the counts of its ranks."""
    ended = {int(match[1]): match for match in ENDED.finditer(output)}
    problems = [line for line in output.splitlines() if "WRONG" in line or line.startswith("LEFT")]
    excused = job.there.excuses(everything)
    killed = job.victim is not None and job.victim not in ended  # it may have ended before its time
    if code == 124:
        problems.append("it did not end in time")
    expected = {137} if killed else {0, 1} if excused else {0}
    if code not in expected and code != 124:
        problems.append(f"exit code {code} instead of {expected}")
    for rank in range(job.ranks):
        if rank not in ended and not (killed and rank == job.victim):
            problems.append(f"rank {rank} did not end in good order")
    for rank, match in ended.items():
        fds, last_fds, rss, last_rss, error = (int(match[group]) for group in range(5, 10))
        if error and job.victim is None and not excused:
            problems.append(f"rank {rank}: error {error} though nobody was killed: {match[10]}")
        if not error and last_fds > fds:
            problems.append(f"rank {rank}: {fds} descriptors became {last_fds}")
        if last_rss > rss + MOST_RSS_GROWTH_KIB:
            problems.append(f"rank {rank}: memory grew from {rss} to {last_rss} KiB")
    counted = [int(match[3]) for match in ended.values()]
    moved = [int(match[4]) for match in ended.values()]
    return problems, max(counted, default=0), max(moved, default=0)


def run_job(job, programs, kit):
    folder = tempfile.mkdtemp(prefix="horing-soak-", dir="/dev/shm")
    token = f"{os.getpid()}-{job.seed}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HORING_")}
    environment |= {name: str(value) for name, value in job.settings.items()}
    environment |= job.there.environment(kit)
    environment[MARK] = token
    # The host of the rendezvous may be killed before the others join the next communicator: they wait as long as this.
    environment["HORING_INIT_TIMEOUT_MS"] = str(PATIENCE_S * 1000 // 3)
    if not job.nodes:  # an emulated node has a /dev/shm of its own
        environment["HORING_SHM_DIR"] = folder
    jobs = [job] + ([dataclasses.replace(job, victim=None)] if job.there.neighbour else [])
    around = job.there.around_job(folder if not job.nodes else None)
    # A session for each: what makes its surroundings ends with it.
    running = [subprocess.Popen(around + one.command(programs), env=environment, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, start_new_session=True) for one in jobs]
    problems, collectives, moved, output = [], 0, 0, ""
    for one, process in zip(jobs, running):
        try:
            said, errors = process.communicate(timeout=job.seconds + 2 * PATIENCE_S)
            found, counted, bytes_moved = judge(one, process.returncode, said, said + errors)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, errors = process.communicate()
            found, counted, bytes_moved = ["horing-run itself did not end"], 0, 0
        problems += found
        collectives, moved, output = collectives + counted, moved + bytes_moved, output + said + errors
    if files := os.listdir(folder):
        problems.append(f"files left in shared memory: {files[:5]}")
    time.sleep(0.1)
    if left := left_processes(token):
        problems.append(f"processes left: {left}")
    shutil.rmtree(folder, ignore_errors=True)
    return problems, collectives, moved, output


def report_failure(job, arguments, problems, output):
    print(f"FAILED: {job.describe()}")
    for problem in problems:
        print(f"  {problem}")
    clean = " --clean" if arguments.clean else ""
    print(f"  again: {sys.argv[0]} --bin {arguments.bin} --seed {job.seed} --seconds 1 --job-seconds {job.seconds:g}{clean}")
    print("  its last output:\n" + "\n".join(f"    {line}" for line in output.splitlines()[-20:]), flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="where the programs are")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seconds", type=float, help="instead of --minutes")
    parser.add_argument("--job-seconds", type=float, default=8, help="how long each job runs (default 8)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first job; each further one has the next")
    parser.add_argument("--clean", action="store_true", help="leave the surroundings of the jobs as they are")
    parser.add_argument("--keep-going", action="store_true", help="after a job that went wrong")
    return parser.parse_args()


def soak(arguments, seconds, nodes_work, kit):
    begin = time.monotonic()
    jobs = killed = failed = all_collectives = all_moved = 0
    while jobs == 0 or time.monotonic() - begin < seconds:
        job = draw_job(arguments.seed + jobs, arguments.job_seconds, nodes_work, kit)
        problems, collectives, moved, output = run_job(job, arguments.bin, kit)
        jobs += 1
        killed += job.victim is not None
        all_collectives += collectives
        all_moved += moved
        print(f"[{time.monotonic() - begin:5.0f} s] {job.describe()}: {collectives} collectives, {moved / 1e6:.0f} MB per rank", flush=True)
        if problems:
            report_failure(job, arguments, problems, output)
            failed += 1
            if not arguments.keep_going:
                break
    verdict = f"{failed} FAILED" if failed else "all well"
    print(f"{jobs} jobs, {killed} of them lost a rank, {all_collectives} collectives, {all_moved / 1e9:.2f} GB per rank: {verdict}")
    return 1 if failed else 0


def main():
    arguments = parse_arguments()
    seconds = arguments.seconds if arguments.seconds is not None else arguments.minutes * 60
    nodes_work = subprocess.run([arguments.bin / "horing-run", "--check-nodes"], capture_output=True).returncode == 0
    print(f"soak: {seconds:g} s from seed {arguments.seed}, emulated nodes {'work' if nodes_work else 'are not possible here'}", flush=True)
    if arguments.clean:
        return soak(arguments, seconds, nodes_work, None)
    with tempfile.TemporaryDirectory(prefix="horing-soak-") as folder:
        kit = surroundings.Kit(folder)
        for missing in kit.missing():
            print(f"soak: cannot make {missing}: left out")
        return soak(arguments, seconds, nodes_work, kit)


if __name__ == "__main__":
    sys.exit(main())
