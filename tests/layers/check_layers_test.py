"""Shows that check_layers.py finds each kind of fault, in small trees made for it."""
import pathlib
import tempfile
import unittest

import check_layers


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name).resolve()
        for tree in ("src", "bench", "tools", "tests"):
            self.write(f"{tree}/README.md", "purpose")
        for layer in ("base", "schedule", "transport", "engine", "comm"):
            self.write(f"src/{layer}/README.md", "purpose")
            self.write(f"src/{layer}/{layer}.h", "#pragma once\n")
        self.write("src/transport/shm/shm_transport.h", "#pragma once\n")
        self.write("src/transport/shm/segment.h", "#pragma once\n")
        self.write("src/transport/shm/README.md", "purpose")
        self.write("include/horing/horing.h", "")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def assert_one_problem(self, *words):
        problems = check_layers.check(self.root)
        self.assertEqual(len(problems), 1, problems)
        for word in words:
            self.assertIn(word, problems[0])

    def test_accepts_arrows_that_point_down(self):
        self.write("src/engine/run.cpp", '#include "engine/engine.h"\n#include "schedule/schedule.h"\n')
        self.write("src/comm/init.cpp", '#include "transport/shm/shm_transport.h"\n')
        self.write("tests/transport/test.cpp", '#include "transport/shm/segment.h"\n#include <gtest/gtest.h>\n')
        self.write("bench/perf.cpp", '#include "base/base.h"\n#include "horing/horing.h"\n')
        self.assertEqual(check_layers.check(self.root), [])

    def test_refuses_an_arrow_up(self):
        self.write("src/base/bad.cpp", '\n#include "comm/comm.h"\n')
        self.assert_one_problem("src/base/bad.cpp:2", "src/comm/comm.h")

    def test_refuses_an_arrow_sideways(self):
        self.write("src/schedule/bad.cpp", '#  include "transport/transport.h"\n')
        self.assert_one_problem("src/schedule/bad.cpp:1", "src/transport/transport.h")

    def test_refuses_a_relative_way_around(self):
        self.write("src/schedule/bad.cpp", '#include "../transport/transport.h"\n')
        self.assert_one_problem("src/schedule/bad.cpp:1", "src/transport/transport.h")

    def test_refuses_internals_of_a_transport(self):
        self.write("src/comm/bad.cpp", '#include "transport/shm/segment.h"\n')
        self.assert_one_problem("private", "src/comm/bad.cpp:1")

    def test_refuses_programs_that_look_inside(self):
        self.write("bench/bad.cpp", '#include "comm/comm.h"\n')
        self.assert_one_problem("bench/bad.cpp:1", "only: base")

    def test_refuses_a_library_that_needs_its_tests(self):
        self.write("tests/base/tool.h", "")
        self.write("src/base/bad.cpp", '#include "../../tests/base/tool.h"\n')
        self.assert_one_problem("no part of it")

    def test_refuses_public_headers_that_show_internals(self):
        self.write("include/horing/bad.h", '#include "base/base.h"\n')
        self.assert_one_problem("public header")

    def test_refuses_rights_that_nobody_uses(self):
        self.write("src/engine/run.cpp", '#include "schedule/schedule.h"\n')
        self.write("src/comm/gpu/run.cpp", '#include "comm/comm.h"\n')
        self.write("src/comm/gpu/README.md", "purpose")
        unused = [problem for problem in check_layers.check(self.root, grants_are_needed=True) if "grants" in problem]
        self.assertTrue(any("LAYERS['engine'] grants 'transport'" in problem for problem in unused), unused)
        self.assertFalse(any("LAYERS['engine'] grants 'schedule'" in problem for problem in unused), unused)
        self.assertFalse(any("LAYERS['comm/gpu'] grants 'comm'," in problem for problem in unused), unused)

    def test_refuses_an_arrow_up_inside_a_layer(self):
        self.write("src/comm/gpu/part.h", "")
        self.write("src/comm/gpu/README.md", "purpose")
        self.write("src/comm/bad.cpp", '#include "comm/gpu/part.h"\n')
        self.assert_one_problem("src/comm/bad.cpp:1", "src/comm/gpu/part.h")

    def test_refuses_a_cycle_of_files(self):
        self.write("src/base/one.h", '#include "base/two.h"\n')
        self.write("src/base/two.h", '#include "base/one.h"\n')
        self.assert_one_problem("cycle of files", "src/base/one.h", "src/base/two.h")

    def test_refuses_a_cycle_of_folders(self):
        self.write("src/transport/one.h", '#include "transport/shm/segment.h"\n')
        self.write("src/transport/shm/two.h", '#include "transport/transport.h"\n')
        self.assert_one_problem("cycle of folders", "src/transport/shm")

    def test_refuses_a_folder_without_readme(self):
        (self.root / "src/engine/README.md").unlink()
        self.assert_one_problem("src/engine", "README.md")

    def test_refuses_a_folder_that_the_diagram_lacks(self):
        self.write("src/util/README.md", "purpose")
        self.assert_one_problem("src/util", "diagram")

    def test_refuses_comments_that_were_run_into_one(self):
        self.write("src/base/heads.cpp", "// ---- One ----\n//\n// http://two\n  // // ---- Three ---- // text\n")
        self.assert_one_problem("src/base/heads.cpp:4", "comment")

    def test_refuses_two_types_of_one_name(self):
        self.write("src/base/one.h", "namespace horing {\n\nstruct State {\n};\n\n}  // namespace horing\n")
        self.write("src/schedule/two.h", "namespace horing {\nclass State final : public Base {\n};\n}  // namespace horing\n")
        self.assert_one_problem("src/schedule/two.h:2", "horing::State", "src/base/one.h:3")

    def test_accepts_types_that_no_linker_confuses(self):
        self.write("src/base/one.h", "namespace horing {\nstruct State;\nstruct State {\n  struct Part {\n  };\n};\n}  // namespace horing\n")
        self.write("src/base/two.h", "namespace horing::verbs {\nstruct State {\n};\n}  // namespace horing::verbs\n")
        self.write("src/base/three.cpp", "namespace horing {\nnamespace {\nstruct State {\n};\n}  // namespace\n}  // namespace horing\n")
        self.assertEqual(check_layers.check(self.root), [])

    def test_refuses_functions_without_their_header(self):
        self.write("src/engine/run.cpp", '#include <vector>\n\nvoid f() { std::sort(a, b); }\n')
        self.assert_one_problem("src/engine/run.cpp", "std::sort()", "<algorithm>")

    def test_accepts_headers_that_the_own_header_includes(self):
        self.write("src/engine/run.h", "#pragma once\n#include <algorithm>\n")
        self.write("src/engine/run.cpp", '#include "engine/run.h"\n\nvoid f() { std::sort(a, b); }  // std::iota()\n')
        self.assertEqual(check_layers.check(self.root), [])

    def test_refuses_to_read_a_number_by_locale(self):
        self.write("src/base/bad.cpp", "\ndouble a = std::strtod(text, nullptr);\n")
        self.assert_one_problem("src/base/bad.cpp:2", "base/number.h")

    def test_refuses_to_write_a_number_by_locale(self):
        self.write("src/base/bad.cpp", 'std::fprintf(file, "%d of "\n  "%.3f\\n", 1, 2.0);\n')
        self.assert_one_problem("src/base/bad.cpp:1", "formatString")

    def test_refuses_to_compare_letters_by_locale(self):
        self.write("src/base/bad.cpp", '\nbool a = ::strcasecmp(name, "ib") == 0;\n')
        self.assert_one_problem("src/base/bad.cpp:2", "base/word.h")

    def test_accepts_numbers_of_no_locale(self):
        self.write("src/base/good.cpp", 'formatString("%.3f", 1.0);\nstd::printf("%d", 1);\n')
        self.write("tools/good.cpp", 'std::printf("%.3f", 1.0);\n')
        self.assertEqual(check_layers.check(self.root), [])

    def test_refuses_a_file_past_the_edge(self):
        self.write("src/base/long.cpp", "\n" * 601)
        self.assert_one_problem("src/base/long.cpp", "600")

    def test_lets_files_outside_of_src_be_longer(self):
        self.write("tests/base/long_test.cpp", "\n" * 800)
        self.assertEqual(check_layers.check(self.root), [])
        self.write("tests/base/long_test.cpp", "\n" * 801)
        self.assert_one_problem("tests/base/long_test.cpp", "800")


if __name__ == "__main__":
    unittest.main()
