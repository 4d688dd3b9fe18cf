"""tandem plan and tandem doctor: what fits, how fast it would be, what is wrong with the machine."""

import json
import os
import re
import subprocess
import unittest
import xml.etree.ElementTree

import harness

# Tokens a second that docs/performance.md and docs/experiments.md have of an H200, without the engine.
RECORDED_27B = {("decode", 1, 512): 173.2, ("decode", 1, 4096): 167.8, ("decode", 8, 512): 1075,
                ("decode", 8, 4096): 949, ("decode", 32, 512): 3018, ("decode", 32, 4096): 2257,
                ("prompt", 1, 512): 6504, ("prompt", 1, 4096): 6631}
RECORDED_4B = {("decode", 1, 512): 573, ("decode", 8, 512): 3774, ("decode", 32, 512): 9900,
               ("prompt", 1, 512): 36214, ("prompt", 1, 4096): 40228}

# A profile of this machine's CPU is only as good as the moment it was measured in: here it is made up.
CURVE = [[1, 5e-11], [8, 2e-10], [32, 4e-10], [512, 4e-9]]


class Plan(harness.Case):
    def forecasts(self, *args):
        report = self.json("plan", *args, "--json")
        self.assertTrue(report["predicted"])
        return {(row["kind"], row["sequences"], row.get("context", row.get("prompt"))): row["tokens_per_s"]
                for row in report["forecasts"]}

    def put_profile(self):
        """Of the CPU, as `tandem doctor` would keep it."""
        cpu = next(device for device in self.json("devices", "--json")["devices"] if device["name"] == "cpu")
        version = self.ok("--version").split()[1]
        products = {name: CURVE for name in ("q4_0", "q4_k", "q6_k", "q8_0", "f16")}
        profile = {"version": version, "device": "cpu", "hardware": cpu["hardware"], "details": cpu["details"],
                   "upload_bytes_per_s": 0, "products": products, "dispatch_s": 1e-5, "dispatch_growth_s": 0,
                   "attention_flops_per_s": 1e11, "attention_row_flops_per_s": 5e10, "activation_bytes_per_s": 2e10,
                   "read_bytes_per_s": 2e10, "matrix_flops_per_s": 5e11, "cache_bytes": 1e6}
        os.makedirs(self.path(".cache", "tandem"))
        self.write(os.path.join(".cache", "tandem", "machine.json"), json.dumps([profile]))

    @unittest.skipIf(harness.SANITIZED, "left out: shapes of many gigabytes, of which a sanitizer marks every byte")
    def test_the_forecast_for_an_h200_is_near_what_was_measured(self):
        for shape, recorded in (("gemma3-27b", RECORDED_27B), ("gemma3-4b", RECORDED_4B)):
            forecast = {}
            for context in (512, 4096):
                forecast.update(self.forecasts(shape, "--machine", "h200", "--context", context))
            for work, measured in recorded.items():
                # docs/plan.md says so of the one that is further off.
                most = 0.16 if (shape, work) == ("gemma3-4b", ("prompt", 1, 512)) else 0.15
                self.assertAlmostEqual(forecast[work] / measured, 1, delta=most, msg=f"{shape}, {work}")

    @unittest.skipIf(harness.SANITIZED, "left out: shapes of many gigabytes, of which a sanitizer marks every byte")
    def test_a_780m_says_what_81_tokens_a_second_would_take(self):
        text = self.ok("plan", "gemma3-27b", "--machine", "780m", "--target", 81, "--context", 512)
        self.assertIn("nothing of it was measured", text)
        self.assertRegex(text, r"one sequence: no, it has 4\.\d+ and at most 5\.\d+")
        self.assertRegex(text, r"many at once: \d+ sequences have 8\d\.\d together")
        self.assertRegex(text, r"another machine, for one sequence: h200")
        self.assertIn("npu-prefill", text)
        again = self.json("plan", "gemma3-27b", "--machine", "780m", "--target", 4, "--json")
        self.assertGreater(again["target"]["one_sequence_tokens_per_s"], 4)

    @unittest.skipIf(harness.SANITIZED, "left out: shapes of many gigabytes, of which a sanitizer marks every byte")
    def test_a_name_of_the_list_is_planned_as_its_shape(self):
        report = self.json("plan", "llama3.1:8b", "--machine", "4090", "--json")
        need = report["memory"][0]
        self.assertAlmostEqual(need["weight_bytes"] / 4.92e9, 1, delta=0.01)
        self.assertTrue(need["fits"])
        self.assertEqual(need["total_bytes"], need["weight_bytes"] + need["cache_bytes"] + need["work_bytes"])
        wide = self.json("plan", "llama3.1:8b", "--machine", "4090", "--type", "q8_0", "--json")["memory"][0]
        self.assertGreater(wide["weight_bytes"], 1.6 * need["weight_bytes"])
        self.assertLess(wide["longest_context"], 131073)

    @unittest.skipIf(harness.SANITIZED, "left out: shapes of many gigabytes, of which a sanitizer marks every byte")
    def test_several_machines_of_a_kind_over_a_network(self):
        words = ("plan", "llama3.3-70b", "--machine", "780m", "--machines", 4, "--link", "2.5gbe,usb4", "--batch", "1,32")
        picture = self.path("cluster.svg")
        report = self.json(*words, "--svg", picture, "--json")
        lines = {(line["link"], line["kind"], line["sequences"]): line for line in report["clusters"]}
        self.assertEqual(set(lines), {(link, *work) for link in ("2.5gbe", "usb4")
                                      for work in (("decode", 1), ("decode", 32), ("prompt", 1))})
        for line in lines.values():
            machines = [point["machines"] for point in line["points"]]
            self.assertEqual(machines, list(range(machines[0], 5)))
            self.assertGreater(machines[0], 1, "42 GB are more than one has")
            self.assertEqual(line["points"][0]["efficiency"], 1)
            for point in line["points"]:
                self.assertEqual(len(point["busy_s"]), point["machines"])
                self.assertTrue(0 <= point["bubble"] < 1, point)
                self.assertLess(point["memory_bytes"], 28e9)
        one, many = lines["2.5gbe", "decode", 1], lines["2.5gbe", "decode", 32]
        self.assertEqual(one["pays_up_to"], one["points"][0]["machines"], "a single sequence gains nothing")
        self.assertGreater(many["points"][0]["tokens_per_s"], 5 * one["points"][0]["tokens_per_s"])
        root = xml.etree.ElementTree.parse(picture).getroot()
        texts = " ".join(element.text for element in root.iter("{http://www.w3.org/2000/svg}text"))
        self.assertIn("llama3.3-70b", texts)
        self.assertIn("usb4", texts)
        text = self.ok(*words)
        self.assertIn("Ethernet, 2.5 Gbit/s (295 MB/s, a hop of 200 us", text)
        self.assertIn("there is no such link", self.fails("plan", "gemma3-1b", "--machine", "780m", "--machines", 2,
                                                          "--link", "isdn"))

    def test_every_known_machine_gives_the_sources_of_its_figures(self):
        text = self.ok("plan", "--machine", "list")
        machines = self.json("plan", "--machine", "list", "--json")["machines"]
        self.assertGreaterEqual({machine["name"] for machine in machines},
                                {"780m", "890m", "8060s", "7900xtx", "9070xt", "4090", "h200"})
        for link in self.json("plan", "--machine", "list", "--json")["links"]:
            self.assertIn(f"--link {link['name']}: {link['title']}", text)
        for machine in machines:
            self.assertIn(machine["title"], text)
            for entry in machine["figures"]:
                for figure in entry.values():
                    self.assertIn(figure["origin"], ("measured", "published", "reckoned"))
                    self.assertTrue(figure["source"])

    def test_this_machine_is_known_by_its_kept_profile(self):
        self.put_profile()
        done = self.tandem("plan", "tales", "--device", "cpu", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(b"measuring", done.stderr, "it was measured before")
        report = json.loads(done.stdout)
        self.assertEqual([row["device"] for row in report["memory"]], ["cpu"] * 3)
        weights = report["memory"][0]["weight_bytes"]
        one = report["forecasts"][0]
        self.assertAlmostEqual(one["seconds_by_part"]["reading_weights"] / (one["weight_bytes"] * 5e-11), 1, delta=0.01)
        self.assertLessEqual(one["weight_bytes"], weights)
        if harness.SANITIZED:  # as above
            return
        available = self.json("list", "--available", "--json")
        if available["device"] == "cpu":
            self.assertTrue(all(model["tokens_per_second"] for model in available["models"] if model["fits"]))

    def test_bad_questions_are_answered_in_a_line(self):
        self.assertIn("there are 780m", self.fails("plan", "tales", "--machine", "m4-max"))
        self.assertIn("nor the name of a shape (gemma3-1b", self.fails("plan", "no-such-model"))
        self.assertIn("no type", self.fails("plan", "tales", "--type", "q9", code=2))
        self.assertIn("--batch", self.fails("plan", "tales", "--batch", "0", code=2))
        self.assertIn("has none", self.fails("plan", "tales", "--machine", "h200", "--svg", self.path("x.svg")))
        self.assertIn("--machine here", self.fails("plan", "tales", "--machine", "here", "--gpu-tflops", "3"))


class Doctor(harness.Case):
    def examine(self, *args, **environment):
        return subprocess.run([harness.BINARY, "doctor", *args], capture_output=True, timeout=harness.TIMEOUT_S,
                              env=self.environment(**environment), check=False)

    def test_looking_alone_says_what_there_is(self):
        done = self.examine("--quick", "--json")
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0 if report["ok"] else 1)
        self.assertEqual({finding["about"] for finding in report["findings"]} >= {"GPU", "NPU"}, True)
        self.assertEqual(report["ok"], all(finding["severity"] != "broken" for finding in report["findings"]))
        self.assertEqual(report["devices"], [])
        for finding in report["findings"]:
            if finding["severity"] == "broken":
                self.assertTrue(finding["remedy"], finding)

    def test_without_a_driver_no_gpu_is_found(self):
        done = self.examine("--quick", "--json", VK_ICD_FILENAMES="/dev/null", VK_DRIVER_FILES="/dev/null")
        gpus = [finding for finding in json.loads(done.stdout)["findings"] if finding["about"] == "GPU"]
        self.assertEqual([gpu for gpu in gpus if gpu["what"].startswith("vulkan:")], [])
        self.assertTrue(gpus)

    @unittest.skipIf(harness.SANITIZED, "left out: its figures would say nothing, and take minutes")
    def test_what_was_measured_is_kept_for_the_plan(self):
        done = self.examine("--json", VK_ICD_FILENAMES="/dev/null", VK_DRIVER_FILES="/dev/null")
        report = json.loads(done.stdout)
        cpu = next(device for device in report["devices"] if device["device"] == "cpu")
        self.assertGreater(cpu["read_bytes_per_s"], 0)
        self.assertEqual(set(cpu["matrix_flops_per_s"]), {"q4_0", "q4_k", "q6_k", "q8_0", "f16"})
        self.assertTrue(all(rate > 0 for rate in cpu["matrix_flops_per_s"].values()))
        self.assertGreater(report["disk"]["bytes_per_s"], 0)
        self.assertEqual(sorted(os.listdir(self.path(".cache", "tandem"))), ["machine.json"], "nothing else remains")
        plan = self.tandem("plan", "tales", "--device", "cpu")
        self.assertNotIn(b"measuring", plan.stderr)
        self.assertTrue(re.search(rb"decode, 1 sequence", plan.stdout), plan.stdout)

    def test_a_model_inside_the_program_is_on_no_disk(self):
        done = self.examine("tales", VK_ICD_FILENAMES="/dev/null", VK_DRIVER_FILES="/dev/null")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"tales: is inside the program", done.stderr)


if __name__ == "__main__":
    harness.main()
