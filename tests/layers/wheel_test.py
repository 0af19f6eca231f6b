"""tools/wheel.py fails for a wheel that asks for more of a system than it should, and says what; auditwheel is a stand-in here.

usage: wheel_test.py SOURCE_DIR
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path


def checked(tag: str, versions: list[str], foreign: list[str], *options: str) -> tuple[int, str]:
    symbols = {"libc.so.6": versions, "libhoring.so.0.1": ["HORING_0.1"], **dict.fromkeys(foreign, ["ANY_1"])}
    facts = {"wheel": "a.whl", "sym_tag": tag, "versioned_symbols": symbols, "external_libs": dict.fromkeys(foreign, "/lib/x")}
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(folder) / "a.whl"
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr("horing/lib/libhoring.so.0.1", "")
        stand_in = Path(folder) / "auditwheel"
        stand_in.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(facts)}\nEND\n")
        stand_in.chmod(0o755)
        done = subprocess.run([sys.executable, "-B", SOURCE_DIR / "tools/wheel.py", wheel, *options], capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
    return done.returncode, done.stdout


class Wheel(unittest.TestCase):
    def test_one_that_asks_for_no_more(self):
        code, said = checked("manylinux_2_34_x86_64", ["GLIBC_2.9", "GLIBC_2.34", "GLIBC_PRIVATE"], [])
        self.assertEqual(code, 0, said)
        self.assertIn("glibc: 2.34;", said)
        self.assertIn("libraries of the system: libc.so.6\n", said)
        self.assertIn("should bring: none", said)

    def test_a_newer_glibc(self):
        self.assertEqual(checked("manylinux_2_35_x86_64", ["GLIBC_2.34"], [])[0], 1)
        self.assertEqual(checked("manylinux_2_35_x86_64", ["GLIBC_2.35"], [], "--glibc", "2.35")[0], 0)
        self.assertEqual(checked("linux_x86_64", ["GLIBC_2.34"], [])[0], 1)

    def test_a_library_of_others(self):
        code, said = checked("manylinux_2_34_x86_64", ["GLIBC_2.34"], ["libhwloc.so.15"])
        self.assertEqual(code, 1)
        self.assertIn("libraries of the system: libc.so.6\n", said)
        self.assertIn("should bring: libhwloc.so.15", said)


if __name__ == "__main__":
    SOURCE_DIR = Path(sys.argv.pop(1))
    unittest.main()
