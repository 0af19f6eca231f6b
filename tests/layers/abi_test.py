"""Shows that tools/abi.py finds what compiled programs do not survive, on the headers as they are.

usage: abi_test.py SOURCE_FOLDER
"""
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop())
sys.path.insert(0, str(ROOT / "tools"))
import abi  # noqa: E402


class Abi(unittest.TestCase):
    def survives(self, pattern="", replacement=""):
        """Whether programs survive the headers with the first place changed that has the pattern."""
        before = abi.read_headers(ROOT)
        now = dict(before)
        if pattern:
            name = next(name for name, text in before.items() if re.search(pattern, text))
            now[name] = re.sub(pattern, replacement, before[name], count=1)
        with tempfile.TemporaryDirectory() as folder:
            return abi.compare(before, now, Path(folder))[1]

    def test_nothing_changed(self):
        self.assertTrue(self.survives())

    def test_a_function_more(self):
        self.assertTrue(self.survives(r"HORING_API horingResult_t horingGetVersion", "HORING_API int horingNew(void);\n\\g<0>"))

    def test_a_function_gone(self):
        self.assertFalse(self.survives(r"HORING_API horingResult_t horingGetVersion\(int\* version\);", ""))

    def test_a_parameter_more(self):
        self.assertFalse(self.survives(r"horingGetVersion\(int\* version\)", "horingGetVersion(int* version, int more)"))

    def test_a_number_of_an_enumerator(self):
        self.assertFalse(self.survives(r"horingBitXor = 0x10000002", "horingBitXor = 0x10000003"))

    def test_a_field_in_the_middle(self):
        self.assertFalse(self.survives(r"(?s)(typedef struct.{0,80}size_t size;[^\n]*\n)", "\\1  double more;\n"))

    def test_a_field_at_the_end(self):
        self.assertFalse(self.survives(r"(\} horingParoParam_t;)", "  double more;\n\\1"))

    def test_another_name_of_the_library(self):
        self.assertTrue(self.survives(r"#define HORING_MINOR \d+", "#define HORING_MINOR 99"))


if __name__ == "__main__":
    if not shutil.which("abidiff"):
        print("SKIPPED: abidiff is not installed (Debian: abigail-tools)")
        sys.exit(77)
    unittest.main()
