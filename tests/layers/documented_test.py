"""Every symbol of the public headers has a comment, and tools/reference.py finds one that has none.

usage: documented_test.py SOURCE_FOLDER
"""
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv.pop()) / "tools"))
import reference  # noqa: E402


def warnings(name="", pattern=""):
    """Of the headers as they are, or with the comment gone that ends where the pattern begins."""
    texts = reference.headers()
    if name:
        found = re.search(pattern, texts[name], re.M)
        before = texts[name][:found.start()]
        cut = before.rindex("/*") if before.endswith("*/\n") else before.rindex("\n\n") + 2
        texts[name] = before[:cut] + texts[name][found.start():]
    with tempfile.TemporaryDirectory() as folder:
        return reference.warnings(texts, Path(folder))


class Documented(unittest.TestCase):
    def misses(self, symbol, name, pattern):
        said = [line for line in warnings(name, pattern) if "is not documented" in line]
        self.assertTrue(any(symbol in line for line in said), said)

    def test_all_are(self):
        self.assertEqual(warnings(), [])

    def test_function(self):
        self.misses("horingSend(", "horing/messages.h", r"^HORING_API horingResult_t horingSend\(")

    def test_function_that_shares_a_comment(self):
        self.misses("horingAllGatherOrdered(", "horing/collectives.h", r"^HORING_API horingResult_t horingReduceScatterOrdered\(")

    def test_type(self):
        self.misses("horingParoConfig_t", "horing/paro.h", r"^typedef struct \{\n  size_t size;[^}]*\n\} horingParoConfig_t;")

    def test_macro(self):
        self.misses("HORING_ANY_RANK", "horing/messages.h", r"^#define HORING_ANY_RANK")

    def test_class(self):
        self.misses("Stream is not", "horing/horing.hpp", r"^class Stream \{")

    def test_type_of_nccl_that_horing_does_not_have(self):
        self.misses("ncclCommMemStat_t", "nccl/nccl.h", r"^typedef enum \{\n  ncclStatGpuMemSuspend")


if __name__ == "__main__":
    if not shutil.which("doxygen"):
        print("Left out: doxygen is not installed")
        sys.exit(77)
    unittest.main()
