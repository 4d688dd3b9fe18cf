"""What is made of --help: manual pages and the completions of shells."""

import os
import re
import shutil
import subprocess
import unittest

import harness


class Manual(harness.Case):
    def pages(self):
        os.mkdir(self.path("man"))
        self.ok("manual", self.path("man"))
        return sorted(os.listdir(self.path("man")))

    def test_every_command_has_a_page_that_says_what_its_help_says(self):
        commands = re.findall(r"^  ([a-z]+) +[A-Z]", self.ok("--help").split("Subcommands:")[1], re.MULTILINE)
        pages = self.pages()
        self.assertIn("pull", commands)
        self.assertNotIn("manual", commands)
        for command in commands:
            self.assertIn(f"tandem-{command}.1", pages)
            with open(self.path("man", f"tandem-{command}.1"), encoding="utf-8") as file:
                page = file.read().replace("\\-", "-").replace("\\&", "")
            for option in re.findall(r"(--[a-z][a-z-]*)", self.ok(command, "--help").split("xamples")[0]):
                self.assertIn(option, page, command)

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_pages_are_well_formed(self):
        for page in self.pages():
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", self.path("man", page)], capture_output=True,
                                  check=True)
            self.assertEqual(done.stderr, b"", page)


class Completion(harness.Case):
    def complete(self, *words):
        return self.ok("complete", "--", *words).split()

    def test_commands_options_and_models(self):
        self.assertEqual(self.complete("pu"), ["pull"])
        self.assertIn("run", self.complete(""))
        self.assertNotIn("complete", self.complete(""))
        self.assertEqual(self.complete("run", "--tem"), ["--temperature"])
        self.assertEqual(self.complete("npu", "li"), ["list"])
        self.assertEqual(self.complete("run", "tal"), ["tales"])
        self.assertIn("gemma3:4b", self.complete("pull", "gemma3"))
        self.assertEqual(self.complete("rm", ""), [])
        os.makedirs(self.path(".local/share/tandem/models"))
        self.write(".local/share/tandem/models/mine.gguf", "GGUF")
        self.assertEqual(self.complete("rm", ""), ["mine"])
        self.assertEqual(self.complete("run", "--device", ""), [])  # files are the shell's

    def test_bash_asks_for_them(self):
        script = self.ok("completion", "bash") + """
PATH="$1:$PATH"
COMP_WORDS=(tandem pull gemma3:2) COMP_CWORD=2
_tandem
printf '%s\\n' "${COMPREPLY[@]}"
"""
        done = subprocess.run(["bash", "-c", script, "bash", os.path.dirname(harness.BINARY)], capture_output=True, check=True,
                              env=self.environment())
        self.assertEqual(done.stdout.decode().split(), ["gemma3:27b"])

    @unittest.skipUnless(shutil.which("zsh") and shutil.which("fish"), "zsh or fish is not installed")
    def test_scripts_of_other_shells_are_well_formed(self):
        for shell in ("zsh", "fish"):
            subprocess.run([shell, "--no-execute", self.write(shell, self.ok("completion", shell))], check=True)

    def test_unknown_shells(self):
        self.assertIn("SHELL", self.fails("completion", "tcsh", code=2))


if __name__ == "__main__":
    harness.main()
