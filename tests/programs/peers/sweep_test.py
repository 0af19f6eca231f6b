"""bench/peers: the report against known answers, and the sweep itself with horing alone on one node.

usage: sweep_test.py FOLDER_OF_PROGRAMS
"""
import json
import os
import select
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.dont_write_bytecode = True
BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path[:0] = [str(BENCH / "peers"), str(BENCH)]
import marks  # noqa: E402
import nodes  # noqa: E402
import report  # noqa: E402
import slices  # noqa: E402
import sweep  # noqa: E402
from libraries import ANY, Job, Library, Start, horing  # noqa: E402
from main_job import Progress  # noqa: E402
from team import Team, TeamFailed, cores_of_ranks  # noqa: E402

MIB = 1 << 20
BIN = None


def line(library, collective, size, *seconds):
    return {"library": library, "collective": collective, "bytes": size, "seconds": list(seconds)}


def job(**changes):
    return {"nodes": 1, "ranks_per_node": 2, "rate_mbit": 0, "failures": [],
            "limits": [{"copy_bytes_per_s": 10e9, "round_trip_ns": 100.0}],
            "times": [line("horing", "all_reduce", MIB, 1e-3, 3e-3, 2e-3), line("MPICH", "all_reduce", MIB, 4e-3),
                      line("Gloo", "all_reduce", MIB, 8e-3), line("horing", "all_reduce", 2 * MIB, 16e-3),
                      line("MPICH", "all_reduce", 2 * MIB, 8e-3)], **changes}


def results(*jobs):
    return {"settings": {"rounds": 3}, "jobs": list(jobs)}


def words_of(svg):
    return " ".join(element.text or "" for element in ElementTree.fromstring(svg).iter())


class Cores(unittest.TestCase):
    def test_ranks_are_bound_as_horing_run_binds_them(self):
        """tests/topology/core_sharing_test.cpp knows the same."""
        for ranks, nodes_, cores, expected in [(4, 1, 8, "0123"), (4, 2, 4, "0123"), (4, 1, 2, "0101"), (8, 2, 2, "01011010"),
                                               (8, 4, 2, "01100110"), (8, 4, 4, "01231032"), (3, 3, 1, "000")]:
            found = cores_of_ranks(ranks, ranks // nodes_, list(range(cores)))
            self.assertEqual("".join(map(str, found)), expected, (ranks, nodes_, cores))


class Bounds(unittest.TestCase):
    def test_the_wire_carries_what_no_algorithm_can_avoid(self):
        four = job(nodes=4, rate_mbit=1000)
        self.assertAlmostEqual(report.least_s(four, "all_gather", 4e6), 3e6 * 8 / 1e9)
        self.assertAlmostEqual(report.least_s(four, "all_reduce", 4e6), 2 * 3e6 * 8 / 1e9)

    def test_the_memory_reads_every_input_and_writes_every_output_once(self):
        self.assertAlmostEqual(report.least_s(job(), "all_reduce", 1e6), 4e6 / 10e9)
        self.assertAlmostEqual(report.least_s(job(), "reduce_scatter", 1e6), 3e6 / 10e9)
        self.assertAlmostEqual(report.least_s(job(ranks_per_node=4), "all_gather", 1e6), 5e6 / 10e9)

    def test_there_is_none_without_a_measured_rate(self):
        self.assertEqual(report.least_s(job(limits=[]), "all_reduce", 1e6), 0)


class Marks(unittest.TestCase):
    def between_nodes(self, ours, peers):
        found = marks.marks(results(job(nodes=2, rate_mbit=1000, times=[
            line("horing", "all_reduce", MIB, *ours), line("MPICH", "all_reduce", MIB, *peers)])))
        return next(mark for mark in found if "between nodes" in mark.figure)

    def test_slower_by_less_than_the_spread_of_the_same_is_not_slower(self):
        # Even rounds of the peer: 100; odd ones: 102.
        mark = self.between_nodes([101.5, 101.5, 101.5, 101.5], [100, 102, 100, 102])
        self.assertTrue(mark.met, mark)
        self.assertIn("1.005 at worst (all-reduce, 1 MiB, 2 x 2; spread 1.020); 0 of 1 cases ≤ 1, 1 with the spread", mark.measured)

    def test_slower_by_more_is(self):
        for ours, peers in [([104, 104, 104, 104], [100, 102, 100, 102]), ([100.5] * 4, [100] * 4), ([101], [100])]:
            self.assertFalse(self.between_nodes(ours, peers).met, (ours, peers))

    def test_one_faster_is_not(self):
        self.assertTrue(self.between_nodes([90, 90], [100, 100]).met)


class Table(unittest.TestCase):
    def test_compares_medians_with_the_fastest_other_library(self):
        self.assertEqual(report.ratios(job(), "all_reduce"), [(0.5, MIB), (2.0, 2 * MIB)])

    def test_sums_up_by_the_geometric_mean_and_the_worst_size(self):
        text = report.table(results(job()))
        self.assertIn("1.000 geometric mean, worst  2.000 at 2 MiB; faster at 1 of 2 sizes", text)

    def test_says_what_failed(self):
        failure = {"library": "MPICH", "collectives": ["all_reduce"], "reason": "3 elements are wrong"}
        self.assertIn("MPICH FAILED at all-reduce: 3 elements are wrong", report.table(results(job(failures=[failure]))))

    def test_does_without_peers(self):
        text = report.table(results(job(times=[line("horing", "all_gather", 8, 1e-6)])))
        self.assertIn("1.00", text)
        self.assertNotIn("geometric mean", text)


class Pictures(unittest.TestCase):
    def test_there_is_one_of_time_and_one_of_distance_for_each_place(self):
        between = job(nodes=2, rate_mbit=1000)
        self.assertEqual(sorted(report.pictures(results(job(), between))),
                         [f"peers_{kind}_{place}.svg" for kind in ("bound", "time") for place in ("nodes", "one_node")])

    def test_they_are_well_formed_and_name_what_they_show(self):
        for picture in report.pictures(results(job())).values():
            text = words_of(picture)
            for word in ("horing", "MPICH", "Gloo", "all-reduce, 1 node × 2 ranks"):
                self.assertIn(word, text)
            self.assertNotIn("Open MPI", text)


class Turns(unittest.TestCase):
    def test_the_first_is_checked_and_the_others_fill_a_batch(self):
        call = ("all_reduce", 8)
        self.assertEqual(sweep.next_turn(call, None, 0.01), (*call, 1, 1, True))
        self.assertEqual(sweep.next_turn(call, 1e-4, 0.01), (*call, 25, 100, False))
        self.assertEqual(sweep.next_turn(call, 1e-9, 0.01), (*call, sweep.MOST_WARMUPS, sweep.MOST_ITERATIONS, False))
        self.assertEqual(sweep.next_turn(call, 0.5, 0.01), (*call, 0, 1, False))

    def test_no_block_is_smaller_than_16_bytes(self):
        self.assertEqual(list(sweep.calls([8, 64], 4)), [("all_reduce", 64), ("reduce_scatter", 64), ("all_gather", 64),
                                                         ("all_reduce", 8)])


class Slices(unittest.TestCase):
    ORDER = [(1, 2, 0), (2, 4, 1000)]

    def test_take_the_place_of_their_collectives_and_leave_the_others(self):
        old = job(times=[line("horing", "all_gather", 8, 1.0), line("horing", "all_reduce", 8, 2.0)])
        new = job(times=[line("horing", "all_reduce", 8, 3.0), line("MPICH", "all_reduce", 8, 4.0)])
        self.assertEqual(slices.merged([old], new, ["all_reduce"], self.ORDER)[0]["times"],
                         [line("MPICH", "all_reduce", 8, 4.0), line("horing", "all_gather", 8, 1.0),
                          line("horing", "all_reduce", 8, 3.0)])

    def test_come_in_the_order_of_the_shapes(self):
        between = job(nodes=2, ranks_per_node=4, rate_mbit=1000)
        self.assertEqual(slices.merged([between], job(), ["all_reduce"], self.ORDER), [job(), between])

    def test_a_failure_stays_until_its_collectives_are_measured_again(self):
        failure = {"library": "Gloo", "collectives": ["all_gather", "all_reduce"], "reason": "a rank ended"}
        jobs = slices.merged([job(failures=[failure])], job(), ["all_reduce"], self.ORDER)
        self.assertEqual(jobs[0]["failures"], [{**failure, "collectives": ["all_gather"]}])
        self.assertEqual(slices.merged(jobs, job(), ["all_gather"], self.ORDER)[0]["failures"], [])

    def test_do_not_join_results_of_other_settings(self):
        with tempfile.TemporaryDirectory(prefix="horing-peers-test-") as folder:
            path = Path(folder) / "peers.json"
            self.assertEqual(slices.earlier(path, {"rounds": 3}), [])
            path.write_text(json.dumps(results(job())), encoding="utf-8")
            self.assertEqual(slices.earlier(path, {"rounds": 3}), [job()])
            with self.assertRaisesRegex(SystemExit, "other rounds"):
                slices.earlier(path, {"rounds": 9})


class Running(unittest.TestCase):
    """With the programs of this build, on this machine as one node."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="horing-peers-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.job = Job(1, 2, "lo", BIN, self.folder)

    def nodes(self):
        made = nodes.Nodes(os.path.join(BIN, "horing-run"), self.folder, 1, 0)
        made.__enter__()
        self.addCleanup(made.__exit__)
        return made

    def test_the_sweep_measures_horing(self):
        settings = {"rounds": 2, "batch_s": 1e-4}
        programs = {"run": os.path.join(BIN, "horing-run"), "limits": os.path.join(BIN, "memory_limits_bench"), "folder": BIN}
        comparison = sweep.Comparison((1, 2, 0), list(sweep.calls([8, 4096], 2)), settings, programs, Progress())
        comparison.run([Library("horing", "peer_horing", horing, {}, ANY),
                        Library("horing MemAlloc", "peer_horing", horing, {"PEERS_MEMALLOC": "1"}, ANY)])
        found = json.loads(json.dumps(comparison.results()))
        self.assertEqual(found["failures"], [])
        for name in ("horing", "horing MemAlloc"):
            self.assertEqual([(times["collective"], times["bytes"], len(times["seconds"])) for times in found["times"]
                              if times["library"] == name], [("all_gather", 4096, 2), ("all_reduce", 8, 2),
                                                             ("all_reduce", 4096, 2), ("reduce_scatter", 4096, 2)])
        self.assertEqual(len(found["limits"]), 2)
        self.assertGreater(min(limit["copy_bytes_per_s"] for limit in found["limits"]), 0)

    def test_a_library_that_does_not_start_is_named_with_its_words(self):
        def broken(job, conductor, settings):
            return [Start(0, ["/bin/sh", "-c", "echo no such fabric; exit 7"], {})]

        with Team(Library("Broken", "", broken, {}, ANY), self.job, self.nodes()) as team:
            with self.assertRaisesRegex(TeamFailed, "(?s)exit code 7 .*no such fabric"):
                team.wait_for_ranks()

    def test_leaving_the_nodes_ends_what_runs_on_them(self):
        made = nodes.Nodes(os.path.join(BIN, "horing-run"), self.folder, 1, 0)
        with made:
            reader, writer = os.pipe()
            program = made.start(0, ["/bin/sh", "-c", "echo here; sleep 600"], log=writer)
            os.close(writer)
            self.assertEqual(os.read(reader, 100), b"here\n")
        self.assertTrue(select.select([reader], [], [], 20)[0], "the program still holds the pipe")
        self.assertEqual(os.read(reader, 100), b"")
        program.end()
        os.close(reader)

    def test_the_shell_passes_output_and_exit_code_on(self):
        self.nodes()
        done = subprocess.run([sys.executable, str(BENCH / "peers" / "nodes.py"), "shell", "-x", "node0", "echo", "$((6", "*", "7));",
                               "exit", "5"], env={**os.environ, nodes.FOLDER_VARIABLE: self.folder}, capture_output=True, text=True,
                              timeout=30, check=False)
        self.assertEqual((done.stdout, done.returncode), ("42\n", 5), done.stderr)


if __name__ == "__main__":
    BIN = sys.argv.pop(1)
    unittest.main()
