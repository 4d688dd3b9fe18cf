"""--device vulkan through the program: which device is taken, and what it says where there is none."""

import array
import glob
import unittest

import harness


@unittest.skipUnless(harness.VULKAN, "this build has no Vulkan")
class Vulkan(harness.Case):
    variables = {}

    def environment(self, **changes):
        return super().environment(**self.variables, **changes)

    def greedy(self, *args):
        return self.ok("eval", "tales", "--tokens", "2,40,41", "--greedy", 3, *args)

    def gpus(self):
        return [device for device in self.json("devices", "--json")["devices"] if device["name"].startswith("vulkan:")]

    def test_devices_by_number_and_name(self):
        gpus = self.gpus()
        self.assertGreaterEqual(len(gpus), 1)
        self.assertEqual([gpu["name"] for gpu in gpus], [f"vulkan:{i}" for i in range(len(gpus))])
        expected = self.greedy("--device", "cpu")
        self.assertEqual(self.greedy("--device", "vulkan"), expected)
        self.assertEqual(self.greedy("--device", "vulkan:0"), expected)
        self.assertEqual(self.greedy("--device", f"vulkan:{gpus[0]['hardware'].split()[0]}"), expected)
        for wrong in ["vulkan:99", "vulkan:no such GPU"]:
            self.assertIn("no usable Vulkan device", self.fails("eval", "tales", "--tokens", "2", "--greedy", 1,
                                                                "--device", wrong))
        # What the driver compiled is kept for the next run.
        self.assertEqual(len(glob.glob(self.path(".cache", "tandem", "pipelines-*.bin"))), 1)

    def test_greedy_text_is_that_of_the_cpu(self):
        ask = ["run", "tales", "Count to 15.", "--temperature", 0, "-n", 24, "--quiet"]
        expected = self.ok(*ask, "--device", "cpu")
        self.assertTrue(expected.startswith("1, 2, 3"), expected)
        self.assertEqual(self.ok(*ask, "--device", "vulkan"), expected)

    def test_exact_logits_are_those_of_the_reference(self):
        def logits(*args):
            self.ok("eval", "tales", "--tokens", "2,40,41,42,43", "--logits", self.path("logits"), "--kv", "f32", *args)
            with open(self.path("logits"), "rb") as file:
                return array.array("f", file.read())

        def difference(a, b):
            return max(abs(x - y) for x, y in zip(a, b)) / max(abs(x) for x in b)

        expected = logits("--device", "cpu:reference")
        self.assertLess(difference(logits("--device", "vulkan", "--exact"), expected), 1e-4)
        # int8 and f16 activations are not exact, so that this would see them
        self.assertGreater(difference(logits("--device", "vulkan"), expected), 1e-4)

    def test_greedy_text_with_a_cache_of_int8_is_that_of_the_cpu(self):
        ask = ["run", "tales", "Count to 15.", "--temperature", 0, "-n", 24, "--quiet", "--kv", "q8_0"]
        expected = self.ok(*ask, "--device", "cpu")
        self.assertTrue(expected.startswith("1, 2, 3"), expected)
        self.assertEqual(self.ok(*ask, "--device", "vulkan"), expected)

    def test_strict_takes_no_software_device(self):
        if any("software" not in gpu["details"] for gpu in self.gpus()):
            self.skipTest("this machine has a GPU")
        self.assertIn("software device", self.fails("eval", "tales", "--tokens", "2", "--greedy", 1,
                                                    "--device", "vulkan", "--strict"))

    def test_the_default_is_a_gpu_or_the_cpu_and_never_software(self):
        devices = self.json("devices", "--json")["devices"]
        default = [device for device in devices if device["default"]]
        self.assertEqual(len(default), 1)
        self.assertNotIn("software", default[0]["details"])
        table = self.ok("devices").splitlines()
        self.assertEqual([line.split()[1] for line in table[1:] if line.startswith("* ")][0], default[0]["name"])
        answer = self.json("run", "tales", "hello", "-n", 1, "--json")
        self.assertEqual(answer["device"], default[0]["name"])

    def test_the_npu_has_a_row_with_the_reason_why_it_cannot_be_used(self):
        npu = self.json("devices", "--json")["devices"][-1]
        self.assertEqual(npu["name"], "npu")
        if not npu["usable"]:
            self.assertGreater(len(npu["details"]), 20)

    def test_a_context_that_does_not_fit_is_told_as_one(self):
        error = self.fails("run", "tales", "hello", "--device", "vulkan", "--context", 2000000000)
        self.assertIn("--context 2000000000", error)
        self.assertRegex(error, r"choose at most [1-9][0-9]+")

    def test_a_machine_without_a_driver(self):
        self.variables = {"VK_ICD_FILENAMES": self.path("none.json"), "VK_DRIVER_FILES": self.path("none.json")}
        self.assertEqual([device["name"] for device in self.json("devices", "--json")["devices"]], ["cpu", "npu"])
        self.greedy()
        self.assertIn("driver", self.fails("eval", "tales", "--tokens", "2", "--greedy", 1, "--device", "vulkan"))


if __name__ == "__main__":
    harness.main()
