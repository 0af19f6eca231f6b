"""tools/complaints.py names each failed test of ctest's and of pytest's results, and says the end of what it complained of.

usage: complaints_test.py SOURCE_DIR
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from xml.sax.saxutils import escape


def said_of(file: str | Path) -> str:
    return subprocess.run([sys.executable, "-B", SOURCE_DIR / "tools/complaints.py", file], capture_output=True, text=True, check=True).stdout


def said(results: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tests.xml")
        file.write_text(results)
        return said_of(file)


def of_ctest(*tests: tuple[str, str]) -> str:
    return "<testsuite>" + "".join(
        f'<testcase name="{name}" classname="{name}" status="fail"><failure message=""/><system-out>{escape(output)}</system-out></testcase>'
        for name, output in tests) + '<testcase name="passes" status="run"><system-out>a.cpp:1: Failure</system-out></testcase></testsuite>'


class Complaints(unittest.TestCase):
    def test_a_loop_hides_no_other_failure(self):
        same = "a_test.cpp:7: Failure\nExpected: one\n"
        text = said(of_ctest(("first", same * 100 + "[  FAILED  ] A.Loops (3 ms)\n[ RUN      ] A.Is\nb_test.cpp:9: Failure\nExpected: two\n"),
                             ("second", "[ RUN      ] B.Ends\nterminate called after throwing\n")))
        self.assertEqual(text, "first failed:\n    a_test.cpp:7: Failure\n    Expected: one\n    [  FAILED  ] A.Loops (3 ms)\n"
                               "    b_test.cpp:9: Failure\n    Expected: two\nsecond failed:\n    terminate called after throwing\n")

    def test_without_a_known_complaint_the_last_lines_are_said(self):
        text = said(of_ctest(("checker", "\n".join(f"line {i}" for i in range(100)))))
        self.assertIn("    line 99\n", text)
        self.assertNotIn("line 50", text)

    def test_a_sanitizer_is_heard(self):
        self.assertIn("heap-use-after-free", said(of_ctest(("a", "==1==ERROR: AddressSanitizer: heap-use-after-free\n" + "rest\n" * 100))))

    def test_pytests_failures_and_errors_are_named_with_their_module(self):
        text = said('<testsuites><testsuite><testcase classname="tests.test_a" name="test_b[4]"><failure message="assert 1">def test_b():\n'
                    'E   AssertionError: rank 3: lost\n</failure></testcase><testcase classname="tests.test_c" name="test_d">'
                    '<error message="failed on setup">E   OSError: full</error></testcase></testsuite></testsuites>')
        self.assertEqual(text, "tests.test_a.test_b[4] failed:\n    assert 1\n    def test_b():\n    E   AssertionError: rank 3: lost\n"
                               "tests.test_c.test_d failed:\n    failed on setup\n    E   OSError: full\n")

    def test_of_many_the_names_are_said(self):
        text = said(of_ctest(*((f"test{i}", "a.cpp:1: Failure") for i in range(30))))
        self.assertIn("failed, too: test20 ", text)
        self.assertIn(" test29\n", text)

    def test_a_timeout_is_said_whatever_else_failed(self):
        text = said('<testsuite><testcase name="slow"><failure message="Timeout"/><system-out>a.cpp:1: Failure</system-out></testcase></testsuite>')
        self.assertEqual(text, "slow failed:\n    Timeout\n    a.cpp:1: Failure\n")

    def test_a_file_that_ends_early_or_is_absent_is_no_error_of_its_own(self):
        self.assertIn("says no more", said('<testsuite><testcase name="a">'))
        self.assertIn("absent.xml says no more", said_of("absent.xml"))


if __name__ == "__main__":
    SOURCE_DIR = Path(sys.argv.pop(1))
    unittest.main()
