"""libtandem as others use it: installed, found by pkg-config and by CMake, with the examples; and clients of the server."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

import harness
from server_test import Server

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.path.join(SOURCE, "examples")
PROMPT = "Tell me a story about a fox"


class Commands(harness.Case):
    def run_command(self, *command, code=0, stdin="", **environment):
        done = subprocess.run(command, env=self.environment(**environment), input=stdin, capture_output=True, text=True,
                              timeout=harness.TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, code, f"{command}\n{done.stdout}\n{done.stderr}")
        return done

    def check_hello(self, program, **environment):
        """What the program tells, and that it fails with a reason."""
        told = self.run_command(program, PROMPT, **environment)
        self.assertGreater(len(told.stdout), 40)
        self.assertRegex(told.stderr, r"\[\d+ tokens, ended by: (stop|length)\]")
        failed = self.run_command(program, PROMPT, "/nowhere.gguf", code=1, **environment)
        self.assertIn("hello: /nowhere.gguf: no such file", failed.stderr)
        self.assertEqual(failed.stdout, "")


@unittest.skipUnless(harness.SANITIZED, "it is linked with libtandem.so instead")
class Sanitized(Commands):
    """The example under AddressSanitizer, which makes a program fail that does wrong or leaves something allocated."""

    def test_hello(self):
        self.check_hello(os.path.join(os.path.dirname(harness.BINARY), "example_hello"))


@unittest.skipUnless(os.environ.get("TANDEM_LIBRARY"), "this build has no libtandem.so")
class Library(Commands):
    """Installs the library once, into a folder that the build does not know."""

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tandem-embed-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        for component in ("library", "development"):
            subprocess.run(["cmake", "--install", os.path.dirname(harness.BINARY), "--component", component],
                           env=dict(os.environ, DESTDIR=cls.root), check=True, stdout=subprocess.DEVNULL)
        found = [folder for folder, _, files in os.walk(cls.root) if "tandem.pc" in files]
        assert len(found) == 1, found
        cls.pkgconfig = found[0]
        cls.libraries = os.path.dirname(found[0])

    def test_pkg_config_and_c(self):
        flags = self.run_command("pkg-config", "--cflags", "--libs", "tandem", PKG_CONFIG_PATH=self.pkgconfig).stdout
        program = self.path("hello")
        self.run_command("gcc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                         os.path.join(EXAMPLES, "hello.c"), *flags.split(), "-o", program)
        self.check_hello(program, LD_LIBRARY_PATH=self.libraries)

    def test_cmake_and_cpp(self):
        build = self.path("build")
        prefix = os.path.dirname(os.path.dirname(self.include()))  # PREFIX/include/tandem
        self.run_command("cmake", "-S", EXAMPLES, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
                         "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror")
        self.run_command("cmake", "--build", build)
        self.check_hello(os.path.join(build, "hello"))
        told = self.run_command(os.path.join(build, "chat"), "tales", "device=cpu", "context=512",
                                stdin="Tell me a story about a fox\nAnd then?\n")
        self.assertIn(" on cpu, context 512]", told.stderr)
        self.assertGreater(len(told.stdout), 80)
        wrong = self.run_command(os.path.join(build, "chat"), "tales", "devise=cpu", code=1)
        self.assertIn("did you mean 'device'", wrong.stderr)

    def include(self):
        return next(folder for folder, _, files in os.walk(self.root) if "tandem.h" in files)

    def test_nothing_but_the_interface_is_visible(self):
        library = os.path.join(self.libraries, "libtandem.so")
        self.assertRegex(os.path.basename(os.path.realpath(library)), r"^libtandem\.so\.\d+\.\d+\.\d+$")
        symbols = self.run_command("nm", "-D", "--defined-only", library).stdout
        visible = {line.split()[2] for line in symbols.splitlines()}
        with open(os.path.join(self.include(), "tandem.h"), encoding="utf-8") as file:
            declared = set(re.findall(r"^TANDEM_API .*?\b(tandem_\w+)\(", file.read(), re.MULTILINE))
        self.assertGreater(len(declared), 20)
        # a symbol of a version is name@@TANDEM_0, and the version itself is one
        self.assertEqual({name.split("@")[0] for name in visible} - {"TANDEM_0"}, declared)
        dynamic = self.run_command("objdump", "-p", library).stdout
        self.assertRegex(dynamic, r"SONAME +libtandem\.so\.0\n")
        self.assertNotIn("libvulkan", dynamic)
        self.assertNotIn("libxrt", dynamic)


class Clients(Commands):
    def ask(self, *command, prompt=PROMPT):
        server = Server()
        try:
            told = self.run_command(*command, f"http://127.0.0.1:{server.port}", prompt).stdout
        finally:
            self.assertEqual(server.stop(), 0)
        self.assertGreater(len(told), 40, told)
        return told

    def test_curl(self):
        if shutil.which("curl") is None:
            self.skipTest("there is no curl")
        told = self.ask("sh", os.path.join(EXAMPLES, "client.sh"), prompt='Say "a\\b"\nto the fox')
        self.assertIn("data: [DONE]", told)

    def test_python(self):
        self.ask("python3", "-B", os.path.join(EXAMPLES, "client.py"))
        refused = self.run_command("python3", "-B", os.path.join(EXAMPLES, "client.py"), "http://127.0.0.1:1", code=1)
        self.assertIn("is `tandem serve` running?", refused.stderr)

    def test_javascript(self):
        if shutil.which("node") is None:
            self.skipTest("there is no Node")
        self.ask("node", os.path.join(EXAMPLES, "client.mjs"))
        refused = self.run_command("node", os.path.join(EXAMPLES, "client.mjs"), "http://127.0.0.1:1", code=1)
        self.assertIn("is tandem serve running?", refused.stderr)


if __name__ == "__main__":
    harness.main()
