"""tandem run, one answer at a time: prompts, sampling options, output formats."""

import json
import os
import signal
import subprocess

import harness
from harness import data

STORY = "Tell me a story about a fox and a lantern."


class Run(harness.Case):
    def answer(self, *args, **options):
        return self.json("run", "tales", *args, "--json", **options)

    def test_streamed_text_is_the_text_of_json(self):
        arguments = [STORY, "--seed", 11, "-n", 60]
        streamed = self.tandem("run", "tales", *arguments)
        self.assertEqual(streamed.returncode, 0)
        answer = self.answer(*arguments)
        self.assertEqual(streamed.stdout.decode(), answer["text"] + "\n")
        self.assertEqual(answer["answer_tokens"], len(answer["ids"]))
        self.assertGreater(len(answer["text"]), 20)
        self.assertRegex(streamed.stderr.decode(),
                         r"\A\[prompt \d+ tokens, [\d.]+ tokens/s; answer \d+ tokens, [\d.]+ tokens/s; "
                         r"context \d+ % full; cpu[^\]]*\]\n\Z")

    def test_same_seed_same_text(self):
        first, second, other = (self.answer(STORY, "--seed", seed, "-n", 40)["ids"] for seed in (5, 5, 6))
        self.assertEqual(first, second)
        self.assertNotEqual(first, other)

    def test_greedy_needs_no_seed(self):
        greedy = self.answer(STORY, "--greedy", "-n", 30)["ids"]
        self.assertEqual(greedy, self.answer(STORY, "--temperature", 0, "-n", 30, "--seed", 3)["ids"])
        self.assertEqual(greedy, self.answer(STORY, "--top-k", 1, "-n", 30)["ids"])

    def test_threads_and_reference_agree_on_greedy_text(self):
        one = self.answer(STORY, "--greedy", "-n", 16, "--threads", 1)["ids"]
        self.assertEqual(one, self.answer(STORY, "--greedy", "-n", 16, "--threads", 3)["ids"])
        self.assertEqual(len(self.answer(STORY, "--greedy", "-n", 4, "--device", "cpu:reference")["ids"]), 4)

    def test_a_prompt_with_spaces_needs_no_model(self):
        self.assertEqual(self.ok("run", STORY, "--seed", 2, "-n", 12), self.ok("run", "tales", STORY, "--seed", 2, "-n", 12))

    def test_prompt_from_standard_input(self):
        by_stdin = self.ok("run", "tales", "--seed", 2, "-n", 12, stdin=(STORY + "\n").encode())
        self.assertEqual(by_stdin, self.ok("run", "tales", STORY, "--seed", 2, "-n", 12))

    def test_empty_standard_input_tells_a_story(self):
        out = self.ok("run", "--seed", 2, "-n", 12)
        self.assertEqual(out, self.ok("run", "tales", STORY, "--seed", 2, "-n", 12))

    def test_an_empty_prompt_is_a_prompt(self):
        empty = self.json("run", "tales", "", "--json", "-n", 1)
        word = self.json("run", "tales", "a", "--json", "-n", 1)
        self.assertEqual(empty["prompt_tokens"] + 1, word["prompt_tokens"])

    def test_closed_standard_input_tells_a_story(self):
        done = subprocess.run(["sh", "-c", '"$0" run -n 8 <&-', harness.BINARY], capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(done.stdout), 4)

    def test_max_tokens_and_finish_reasons(self):
        short = self.answer(STORY, "-n", 3, "--greedy")
        self.assertEqual((len(short["ids"]), short["finish_reason"]), (3, "length"))
        self.assertEqual(self.answer("What is 7 plus 5?", "--greedy")["finish_reason"], "stop")

    def test_stop_strings(self):
        text = self.answer(STORY, "--greedy", "-n", 40)["text"]
        stop = text.split()[4]
        cut = self.answer(STORY, "--greedy", "-n", 40, "--stop", stop, "--stop", "never said")
        self.assertEqual(cut["text"], text[: text.index(stop)])
        self.assertEqual(cut["finish_reason"], "stop")

    def test_logit_bias(self):
        first = self.answer(STORY, "--greedy", "-n", 1)["ids"][0]
        banned = self.answer(STORY, "--greedy", "-n", 1, "--logit-bias", f"{first}=-1000")["ids"][0]
        self.assertNotEqual(first, banned)
        forced = self.answer(STORY, "-n", 3, "--logit-bias", f"{banned}=1000")["ids"]
        self.assertEqual(forced, [banned] * 3)

    def test_a_schema_holds_the_answer(self):
        schema = {"properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 9}},
                  "required": ["name", "age"]}
        for given in (json.dumps(schema), self.write("fox.json", json.dumps(schema, indent=2))):
            answer = self.answer("Tell me about a fox.", "--grammar", given, "--seed", 3)
            self.assertEqual(answer["finish_reason"], "stop")
            fox = json.loads(answer["text"])
            self.assertEqual(list(fox), ["name", "age"])
            self.assertLessEqual(len(fox["name"]), 12)
            self.assertLessEqual(fox["age"], 9)

    def test_a_grammar_holds_the_answer(self):
        rules = self.write("count.gbnf", 'root ::= "<" [0-9]{3} (", " [0-9]{3}){2} ">"')
        self.assertRegex(self.ok("run", "What is 7 plus 5?", "--grammar", rules, "--lookup"),
                         r"\A<\d{3}(, \d{3}){2}>\n\Z")
        self.assertTrue(self.ok("run", STORY, "--grammar", "json", "-n", 8, "--greedy").startswith("{"))
        self.assertEqual(self.ok("run", STORY, "--grammar", "none", "-n", 8, "--greedy"),
                         self.ok("run", STORY, "-n", 8, "--greedy"))

    def test_grammars_are_checked_before_the_model_is_loaded(self):
        self.assertIn("/properties/a/not", self.fails("run", "missing.gguf", "hello", "--grammar",
                                                      '{"properties": {"a": {"not": {}}}}', code=2))
        self.assertIn("missing.gbnf", self.fails("run", "tales", "hello", "--grammar", "missing.gbnf", code=2))
        wrong = self.write("wrong.gbnf", 'root ::= other')
        self.assertRegex(self.fails("run", "tales", "hello", "--grammar", wrong, code=2), r"wrong\.gbnf: .*other")

    def test_guesses_change_no_token(self):
        # With weights of f16, products of several rows are those of each row, to the last bit.
        def answer(*options):
            return self.json("run", harness.TALES_F16, STORY, "--greedy", "-n", 80, *options, "--json")

        plain = answer()
        self.assertEqual(plain["guessed_tokens"], 0)
        for options in (["--lookup"], ["--draft", "tales"]):
            with self.subTest(options=options):
                guessed = answer(*options)
                self.assertEqual(guessed["ids"], plain["ids"])
                self.assertGreater(guessed["guessed_tokens"], 0)
                self.assertLessEqual(guessed["guessed_right"], guessed["guessed_tokens"])
        self.assertGreater(guessed["guessed_right"], 40)  # the same model, only more rounded

    def test_a_draft_model_must_fit(self):
        model = harness.make_llama(self.path("model"), 1600, data("tokenizers", "spm-bpe-gemma", "tokenizer.model"))
        self.assertIn("1600", self.fails("run", "tales", "hello", "--draft", model))
        self.assertIn("missing.gguf", self.fails("run", "tales", "hello", "--draft", "missing.gguf"))
        self.fails("run", "tales", "hello", "--draft", "tales", "--lookup", code=2)

    def test_raw_completes_the_text(self):
        raw = self.answer("Once upon a time", "--raw", "--greedy", "-n", 12)
        chat = self.answer("Once upon a time", "--greedy", "-n", 12)
        self.assertLess(raw["prompt_tokens"], chat["prompt_tokens"])

    def test_system_message_lengthens_the_prompt(self):
        plain = self.answer(STORY, "-n", 1)["prompt_tokens"]
        self.assertGreater(self.answer(STORY, "-n", 1, "--system", "You are a friendly old fox.")["prompt_tokens"], plain)

    def test_quiet_and_verbose(self):
        self.assertEqual(self.tandem("run", STORY, "-n", 2, "--quiet").stderr, b"")
        self.assertIn("[seed 99]", self.tandem("run", STORY, "-n", 2, "-v", "--seed", 99).stderr.decode())

    def test_embedded_f16_model_speaks_too(self):
        self.assertGreater(len(self.ok("run", harness.TALES_F16, STORY, "--greedy", "-n", 12)), 10)

    def test_model_of_ones_own_without_template_is_completed_raw(self):
        model = harness.make_llama(self.path("model"), 1600, data("tokenizers", "spm-bpe-gemma", "tokenizer.model"))
        done = self.tandem("run", model, "Hello there", "-n", 4)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no chat template", done.stderr.decode())

    def test_a_completion_joins_the_text(self):
        for name in ("spm-bpe-gemma", "spm-unigram-llama"):
            with self.subTest(tokenizer=name):
                tokenizer = data("tokenizers", name, "tokenizer.model")
                model = harness.make_llama(self.path(name), 1500, tokenizer)
                prompt = "Hello there"
                answer = self.json("run", model, prompt, "--raw", "-n", 12, "--seed", 4, "--json")
                ids = self.json("tokenize", model, prompt, "--no-bos", "--json")["ids"] + answer["ids"]
                whole = self.json("tokenize", model, "--decode", " ".join(map(str, ids)), "--json")["text"]
                self.assertEqual(prompt + answer["text"], whole)

    def test_a_piped_text_comes_before_the_prompt(self):
        joined = self.json("run", "tales", "one two\n\nWhat is that?", "-n", 1, "--json")["prompt_tokens"]
        piped = self.json("run", "tales", "What is that?", "-n", 1, "--json", stdin=b"one two\n")["prompt_tokens"]
        alone = self.json("run", "tales", "What is that?", "-n", 1, "--json")["prompt_tokens"]
        self.assertEqual(piped, joined)
        self.assertGreater(piped, alone)
        nothing_to_add = self.json("run", "tales", "", "-n", 1, "--json", stdin=b"What is that?\n")["prompt_tokens"]
        self.assertEqual(nothing_to_add, alone)

    def test_context_too_small_for_the_prompt(self):
        self.assertIn("context size of 4", self.fails("run", "tales", STORY, "--context", 4))

    def test_a_prompt_that_is_not_utf8_is_named_as_such(self):
        latin = b"caf\xe9"
        for options in ([], ["--raw"]):
            line = self.fails("run", "tales", os.fsdecode(latin), *options)
            self.assertIn("the prompt is not UTF-8: byte 4 of", line)
            self.assertIn("0xE9", line)
            self.assertIn("not UTF-8", self.fails("run", "tales", *options, stdin=latin))
        self.assertIn("byte 1 of the system message", self.fails("run", "tales", "hello", "--system", os.fsdecode(b"\xff")))

    def test_a_context_past_the_training_is_told_once(self):
        done = self.tandem("run", "tales", "hello", "-n", 1, "--context", 100000)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count(b"a context of 100000 is longer than the"), 1, done.stderr)
        self.assertNotIn(b"trained for", self.tandem("run", "tales", "hello", "-n", 1).stderr)

    def test_values_are_checked(self):
        for name, value in {"--temperature": "-1", "--top-p": "0", "--top-k": "-3", "--min-p": "1.5", "--seed": "x",
                            "--repeat-penalty": "0", "--max-tokens": "-1", "--logit-bias": "5", "--kv": "q4_0",
                            "--threads": "-1", "--context": "-1"}.items():
            with self.subTest(option=name):
                self.assertIn(value, self.fails("run", "tales", "hello", name, value, code=2))
        self.assertIn("99999999", self.fails("run", "tales", "hello", "--logit-bias", "99999999=1"))

    def test_devices(self):
        for device in [] if harness.VULKAN else ["vulkan", "vulkan:1"]:
            self.assertIn(f"--device {device}: this build has no",
                          self.fails("run", "tales", "hello", "--device", device))
        self.assertIn("beside a GPU", self.fails("run", "tales", "hello", "--device", "npu"))
        self.assertIn("tpu", self.fails("run", "tales", "hello", "--device", "tpu"))
        if all(device["name"] in ("cpu", "npu") or "software" in device["details"]
               for device in self.json("devices", "--json")["devices"]):
            self.assertIn("--device cpu", self.fails("run", "tales", "hello", "--strict"))
        self.ok("run", "tales", "hello", "-n", 1, "--strict", "--device", "cpu")

    def test_exact_says_where_it_is(self):
        self.assertIn("cpu:reference", self.fails("run", "tales", "hello", "--exact", "--device", "cpu"))
        self.ok("run", "tales", "hello", "-n", 1, "--exact", "--device", "cpu:reference")

    def test_a_reader_that_leaves_is_no_error(self):
        done = subprocess.run(["bash", "-c", '"$0" inspect tales --json 2>&1 | head -c 100 >/dev/null; '
                               '"$0" run "tell me a story" -n 200 -q 2>&1 | head -c 1', harness.BINARY],
                              capture_output=True, check=False)
        self.assertEqual(done.stderr, b"")
        self.assertEqual(len(done.stdout), 1)

    def test_interrupt_ends_the_answer_and_keeps_what_was_said(self):
        bias = []
        for token in ("<eos>", "<end_of_turn>"):
            ids = self.json("tokenize", "tales", token, "--no-bos", "--json")["ids"]
            self.assertEqual(len(ids), 1)
            bias += ["--logit-bias", f"{ids[0]}=-10000"]
        program = subprocess.Popen([harness.BINARY, "run", "tales", STORY, "--context", "100000", *bias],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        first = os.read(program.stdout.fileno(), 1)
        program.send_signal(signal.SIGINT)
        rest, error = program.communicate(timeout=harness.TIMEOUT_S)
        self.assertEqual(program.returncode, 130)
        self.assertTrue((first + rest).endswith(b"\n"))
        self.assertIn(b"stopped", error)

    def test_several_devices_share_the_layers(self):
        one = self.answer(STORY, "--greedy", "-n", 8, "--device", "cpu:reference")["ids"]
        two = ["--device", "cpu:reference,cpu:reference"]
        for split in [], ["--split", "1"]:
            self.assertEqual(self.answer(STORY, "--greedy", "-n", 8, *two, *split)["ids"], one, split)
        for arguments, error in [(["--device", "cpu", "--split", "1"], "--split 1 needs several devices"),
                                 (["--device", "cpu,tpu"], "unknown device 'tpu'"),
                                 (["--device", "cpu,"], "unknown device ''"),
                                 (["--device", "cpu,auto"], "auto takes one device"),
                                 (["--device", "cpu,npu"], "beside a GPU"),
                                 (["--device", "cpu,cpu", "--npu", "emulator"], "beside one device only"),
                                 (["--device", "cpu,cpu", "--split", "99"], "--split 99: "),
                                 (["--device", "cpu,cpu", "--split", "1,2"], "--split 1,2: ")]:
            self.assertIn(error, self.fails("run", "tales", "hello", *arguments), arguments)

    def test_output_to_a_full_device_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([harness.BINARY, "inspect", "tales"], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"No space left", done.stderr)


class Program(harness.Case):
    def test_help_of_every_command_has_examples(self):
        self.assertIn("Examples:", self.ok("--help"))
        for command in ("run", "inspect", "tokenize", "eval", "quantize"):
            with self.subTest(command=command):
                out = self.ok(command, "--help")
                self.assertIn("Examples:", out)
                self.assertLess(max(map(len, out.splitlines())), 140)
        self.assertIn("--device", self.ok("devices", "--help"))

    def test_version(self):
        self.assertRegex(self.ok("--version"), r"\Atandem \d+\.\d+\.\d+\n\Z")

    def test_usage_errors(self):
        self.assertIn("frobnicate", self.fails("frobnicate", code=2))
        self.assertIn("--frobnicate", self.fails("run", "--frobnicate", code=2))
        self.assertIn("see tandem run --help", self.fails("run", "a b", "c", "d", code=2))
        for arguments, parts in {
                ("fetch", "x"): ("fetch: no such command; there are run, serve", "see tandem --help"),
                ("sevre",): ("sevre: no such command; did you mean 'serve'?", "see tandem --help"),
                ("tales", "Hello there"): ("tales: a model", "tandem run tales"),
                ("npu", "chekc"): ("chekc: no such command; did you mean 'check'?", "see tandem npu --help"),
                ("run", "tales", "Hello", "--temprature", "1"): ("--temprature: no such option; did you mean "
                                                                 "'--temperature'?", "see tandem run --help"),
                ("run", "tales", "Hello", "--tpo-k=3"): ("--tpo-k: no such option; did you mean '--top-k'?",),
                ("--threads", "2", "run", "tales"): ("--threads: an option of run", "tandem run --threads"),
                ("run", "tales", "tell", "me", "more"): ("me: one argument too many", "quotes"),
                ("inspect",): ("MODEL is missing: GGUF file", "see tandem inspect --help"),
                ("quantize", "tales"): ("OUT is missing: The GGUF file to write",),
                ("run", "tales", "Hello", "--seed"): ("--seed needs a value: Same seed, same text",),
                ("run", "taels"): (),
        }.items():
            with self.subTest(arguments=arguments):
                line = self.fails(*arguments, code=2 if parts else 1)
                for part in parts or ("taels: no such file", "did you mean 'tales'?"):
                    self.assertIn(part, line)
        done = self.tandem()
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"Examples:", done.stderr)

    def test_devices(self):
        devices = self.json("devices", "--json")["devices"]
        self.assertEqual(devices[0]["name"], "cpu")
        self.assertGreater(devices[0]["pools"][0]["size_bytes"], 0)
        self.assertRegex(self.ok("devices"), r"(?m)^[ *]  cpu +\S")


if __name__ == "__main__":
    harness.main()
