"""Shows that check.py finds each thing it looks for, on small trees that are wrong on purpose."""

import tempfile
import unittest
from pathlib import Path

from check import MAX_LINES, check_tree, read_arrows

ARCHITECTURE = """
src/base/   things        -> std, fmt
src/format/ files         -> base
src/vulkan/ a device      -> base
src/cli/    the program   -> everything
"""


class CheckTree(unittest.TestCase):
    def findings(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, content in {"docs/architecture.md": ARCHITECTURE, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(content)
            return check_tree(root)

    def expect_finding(self, name, content, words):
        found = self.findings({name: content})
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(name + ":"), found)
        self.assertIn(words, found[0])

    def test_a_good_tree_has_no_findings(self):
        files = {
            "src/CMakeLists.txt": "tandem_library(format tandem_base)\n",
            "src/base/a.h": "// Purpose.\n#include <string>\n",
            "src/format/b.cpp": '#include "base/a.h"\n#include "format/b.h"\n',
            "src/vulkan/c.cpp": "#include <vulkan/vulkan.h>\n",
            "src/cli/main.cpp": '#include "format/b.h"\n#include "vulkan/c.h"\n',
        }
        self.assertEqual(self.findings(files), [])

    def test_an_include_against_the_arrows(self):
        self.expect_finding("src/base/a.cpp", '#include "format/b.h"\n', "no arrow base -> format")

    def test_an_include_without_its_folder(self):
        self.expect_finding("src/base/a.cpp", '#include "a.h"\n', "folder/file.h")

    def test_a_folder_that_is_not_in_the_table(self):
        self.expect_finding("src/extra/a.cpp", "\n", "not in the table")

    def test_a_system_header_outside_of_its_folder(self):
        self.expect_finding("src/cli/main.cpp", "#include <vulkan/vulkan.h>\n", "stays in src/vulkan")

    def test_a_library_that_links_against_the_arrows(self):
        self.expect_finding("src/CMakeLists.txt", "tandem_library(base tandem_format)\n", "no arrow base -> format")

    def test_a_header_without_a_purpose(self):
        self.expect_finding("src/base/a.h", "#pragma once\n", "purpose")

    def test_a_file_that_is_too_long(self):
        self.expect_finding("src/base/a.cpp", "\n" * (MAX_LINES + 1), "lines")

    def test_a_path_of_somebodys_machine(self):
        self.expect_finding("README.md", "see /ho" + "me/me/model\n", "absolute path")

    def test_a_note_to_self(self):
        self.expect_finding("src/base/a.cpp", "// TO" + "DO: later\n", "open an issue")

    def test_a_merge_conflict(self):
        self.expect_finding("README.md", "<" * 7 + " HEAD\n", "merge conflict")

    def test_an_arrow_that_points_down(self):
        with self.assertRaises(ValueError):
            read_arrows("src/base/ a -> format\nsrc/format/ b -> base\n")

    def test_a_table_that_cannot_be_found(self):
        with self.assertRaises(ValueError):
            read_arrows("no table here")


if __name__ == "__main__":
    unittest.main()
