"""bench/main_job.py and its report, without any network: the programs it starts are small scripts made here."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.dont_write_bytecode = True
BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))
import main_job_report as report  # noqa: E402

MIB = report.MIB

# Stands for horing-run: finds --output in the command of the ranks and writes what it was told to.
LAUNCHER = """#!/usr/bin/env python3
import os, pathlib, sys
if "--check-nodes" in sys.argv:
    if os.environ["FAKE_NODES"] == "no":
        sys.exit("horing-run: unshare: Operation not permitted")
    sys.exit(0)
nodes = sys.argv[sys.argv.index("--nodes") + 1] if "--nodes" in sys.argv else "1"
print("ho_ring_bench: working", file=sys.stderr)
if nodes == os.environ.get("FAKE_FAILURE"):
    sys.exit("rank 1 is gone")
pathlib.Path(sys.argv[sys.argv.index("--output") + 1]).write_text(pathlib.Path(os.environ["FAKE_LINES"]).read_text())
"""


def lines(over_wire=1.02, ring_over=1.9, between_nodes=True):
    out = [{"line": "job", "repetitions": 7}]
    if between_nodes:
        out.append({"line": "raw", "bytes": 64 * MIB, "median_ms": 540.0, "over_wire_bound": 1.01})
    for collective in report.COLLECTIVES:
        of = {"bytes": 64 * MIB, "collective": collective}
        times = {"line": "time", "min_ms": 500.0, "max_ms": 600.0, **of}
        bounds = {"over_own_bound": 1.01, "link_bytes_over_wire_bound": 1.008} if between_nodes else {}
        out.append({**times, "algorithm": "ring", "median_ms": 1000.0, **bounds} | ({"over_wire_bound": ring_over} if between_nodes else {}))
        out.append({**times, "algorithm": "ho_ring", "median_ms": 550.0, **bounds} | ({"over_wire_bound": over_wire} if between_nodes else {}))
        theory = {"theory": 1.875, "of_theory": ring_over / over_wire / 1.875} if between_nodes else {}
        out.append({"line": "comparison", **of, "ring_over_ho_ring": ring_over / over_wire, **theory})
    return out


def shape(**changes):
    return {"nodes": 2, "ranks_per_node": 8, "rate_mbit": 500, "failure": None, "lines": lines(), **changes}


def words_of(svg):
    return " ".join(element.text or "" for element in ElementTree.fromstring(svg).iter())


class Table(unittest.TestCase):
    def test_says_when_all_marks_are_met(self):
        text = report.table([shape()])
        self.assertIn("3 of 3 cases meet", text)
        self.assertNotIn("   misses", text)

    def test_names_the_marks_that_are_missed(self):
        text = report.table([shape(lines=lines(over_wire=1.2))])
        self.assertIn("0 of 3 cases meet", text)
        self.assertIn("misses: x wire > 1.04, ring / ho_ring < 0.95 of theory", text)

    def test_says_why_a_shape_was_not_measured(self):
        self.assertIn("not measured: it took too long", report.table([shape(failure="it took too long", lines=[])]))


class Chart(unittest.TestCase):
    def test_is_well_formed_and_labelled(self):
        words = words_of(report.chart([shape(), shape(failure="a < b", lines=[])]))
        for wanted in ("2 nodes × 8 ranks, 500 Mbit/s", "all-gather", "1.86× as fast", "theory 1.88×", "not measured: a < b"):
            self.assertIn(wanted, words)

    def test_needs_nothing_from_elsewhere(self):
        svg = report.chart([shape()]).replace("http://www.w3.org/2000/svg", "")
        self.assertNotIn("http", svg)
        self.assertNotIn("href", svg)

    def test_keeps_bars_inside_their_panel(self):
        root = ElementTree.fromstring(report.chart([shape(lines=lines(ring_over=3.7))]))
        ends = [float(e.get("x", 0)) + float(e.get("width", 0)) for e in root.iter() if (e.get("class") or "") in ("ho", "ring")]
        self.assertLessEqual(max(ends), report.PANEL_WIDTH)

    def test_is_empty_when_nothing_was_measured(self):
        self.assertEqual(report.chart([shape(failure="x", lines=[])]), "")


class MainJob(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)
        (self.path / "bin").mkdir()
        for name in ("horing-run", "ho_ring_bench"):
            (self.path / "bin" / name).write_text(LAUNCHER)
            (self.path / "bin" / name).chmod(0o755)

    def run_job(self, between_nodes=True, **environment):
        lines_file = self.path / "lines.jsonl"
        lines_file.write_text("".join(json.dumps(line) + "\n" for line in lines(between_nodes=between_nodes)))
        command = [sys.executable, "-B", str(BENCH / "main_job.py"), "--bin", str(self.path / "bin"), "--out", str(self.path / "out")]
        return subprocess.run(command, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "FAKE_NODES": "yes", "FAKE_LINES": str(lines_file), **environment})

    def test_measures_every_shape(self):
        job = self.run_job()
        self.assertEqual(job.returncode, 0, job.stderr)
        self.assertIn("12 of 12 cases meet", job.stdout)
        self.assertLess(job.stdout.find("3 of 3 cases meet"), job.stdout.find("12 of 12"), "no first table before the whole one")
        self.assertIn("3 of 3 cases meet", job.stdout)
        results = json.loads((self.path / "out" / "results.json").read_text())
        self.assertEqual(len(results["shapes"]), 4)
        self.assertIn("4 nodes × 2 ranks", words_of((self.path / "out" / "ho_ring_vs_ring.svg").read_text()))

    def test_goes_on_after_a_shape_that_failed_and_says_so(self):
        job = self.run_job(FAKE_FAILURE="4")
        self.assertEqual(job.returncode, 1)
        self.assertIn("rank 1 is gone", job.stderr)
        self.assertIn("6 of 6 cases meet", job.stdout)

    def test_says_what_it_left_out_without_nodes(self):
        job = self.run_job(between_nodes=False, FAKE_NODES="no")
        self.assertEqual(job.returncode, 0, job.stderr)
        self.assertIn("Operation not permitted", job.stderr)
        self.assertIn("1 node x 4 ranks", job.stdout)
        self.assertIn("One node only", words_of((self.path / "out" / "ho_ring_vs_ring.svg").read_text()))

    def test_shows_the_table_where_nothing_can_be_written(self):
        (self.path / "out").write_text("no folder")
        job = self.run_job()
        self.assertEqual(job.returncode, 1)
        self.assertIn("12 of 12 cases meet", job.stdout)
        self.assertEqual(job.stderr.splitlines()[-1].partition(": [Errno")[0], "main_job.py: the picture and the results are not kept")

    def test_names_the_program_that_is_not_built(self):
        (self.path / "bin" / "ho_ring_bench").unlink()
        job = self.run_job()
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("ho_ring_bench is not there", job.stderr)


if __name__ == "__main__":
    unittest.main()
