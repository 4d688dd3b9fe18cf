"""tandem run at a terminal: the conversation, its commands, Ctrl-C, history."""

import json
import os

import harness


class Repl(harness.Case):
    def start(self, *args, model="tales", wait_for_prompt=True, **environment):
        terminal = harness.Terminal(["run", model, *map(str, args)], self.environment(**environment), self.directory)
        self.addCleanup(terminal.kill)
        terminal.expect(r"/help")
        if wait_for_prompt:
            terminal.expect(r">>> ")
        return terminal

    def ask(self, terminal, text):
        """Types a line and waits for the closing line of the answer."""
        terminal.line(text)
        closing = terminal.expect(r"\[prompt (\d+) tokens(?: \((\d+) cached\))?[^\]]*\]")
        terminal.expect(r">>> ")
        return closing

    def endless(self):
        """Options with which an answer never ends by itself."""
        options = ["--context", 100000]
        for token in ("<eos>", "<end_of_turn>"):
            for number in self.json("tokenize", "tales", token, "--no-bos", "--json")["ids"]:
                options += ["--logit-bias", f"{number}=-10000"]
        return options

    def test_a_conversation_is_kept_and_cached(self):
        terminal = self.start("--seed", 3, "-n", 20)
        first = self.ask(terminal, "Tell me a story about a fox.")
        second = self.ask(terminal, "And then?")
        self.assertGreater(int(second[1]), int(first[1]))
        self.assertGreater(int(second[2]), 0)  # the cache is reused
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 0)

    def test_ctrl_d_leaves(self):
        terminal = self.start()
        terminal.type("\x04")
        self.assertEqual(terminal.end(), 0)

    def test_ctrl_d_leaves_also_when_it_comes_before_the_prompt(self):
        terminal = self.start(wait_for_prompt=False)
        terminal.type("\x04")
        self.assertEqual(terminal.end(), 0)

    def test_ctrl_d_during_an_answer_leaves_after_it(self):
        terminal = self.start("--seed", 3, "-n", 40)
        terminal.line("Tell me a story about a fox.")
        terminal.expect(r"fox\.\n")
        terminal.type("\x04")
        self.assertEqual(terminal.end(), 0)
        self.assertRegex(terminal.shown, r"\[prompt \d+ tokens")

    def test_ctrl_c_before_the_prompt_is_not_lost(self):
        terminal = self.start(wait_for_prompt=False)
        terminal.interrupt()
        terminal.expect(r"Ctrl-D or /bye leaves")
        terminal.expect(r">>> ")
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 0)

    def test_lines_typed_ahead_are_read_one_by_one(self):
        terminal = self.start("--seed", 3, "-n", 8, wait_for_prompt=False)
        terminal.line("Hello fox.")
        terminal.line("/set seed 4")
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 0)
        self.assertRegex(terminal.shown, r"(?s)\[prompt \d+ tokens.*seed is 4")

    def test_ctrl_space_at_the_prompt_does_not_leave(self):
        terminal = self.start()
        terminal.type("\x00")
        terminal.line("/show")
        terminal.expect(r"by 0 messages")
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 0)

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        terminal = self.start("--seed", 1, *self.endless())
        terminal.line("Tell me a long story about a bear.")
        terminal.expect(r"bear\.\n")
        terminal.expect(r"[a-z]{2,} [a-z]{2,} [a-z]{2,} ")
        terminal.interrupt()
        terminal.expect(r"; stopped\]")
        terminal.expect(r">>> ")
        terminal.line("/save partial.json")
        terminal.expect(r"2 messages saved")
        with open(self.path("partial.json"), encoding="utf-8") as file:
            self.assertGreater(len(json.load(file)["messages"][1]["content"]), 0)
        terminal.line("/set max_tokens 5")
        terminal.expect(r"max_tokens is 5")
        self.ask(terminal, "Hello again.")
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 0)

    def test_ctrl_c_at_the_prompt_clears_the_line(self):
        terminal = self.start()
        terminal.type("/bye")
        terminal.expect("/bye")
        terminal.interrupt()
        terminal.expect(r">>> ")
        terminal.interrupt()
        terminal.expect(r"Ctrl-D or /bye leaves")
        terminal.expect(r">>> ")
        terminal.line("/show")
        terminal.expect(r"temperature +0\.8")
        terminal.type("\x04")
        self.assertEqual(terminal.end(), 0)

    def test_save_clear_and_load(self):
        terminal = self.start("--seed", 3, "-n", 8, "--system", "Be kind.")
        self.ask(terminal, "Hello fox.")
        terminal.line("/save talk.json")
        terminal.expect(r"2 messages saved to talk\.json")
        with open(self.path("talk.json"), encoding="utf-8") as file:
            saved = json.load(file)
        self.assertEqual(saved["system"], "Be kind.")
        self.assertEqual([message["role"] for message in saved["messages"]], ["user", "assistant"])
        self.assertEqual(saved["messages"][0]["content"], "Hello fox.")
        terminal.line("/clear")
        terminal.expect(r"forgotten")
        terminal.line("/show")
        terminal.expect(r"by 0 messages")
        terminal.line("/load talk.json")
        terminal.expect(r"2 messages loaded")
        terminal.line("/show")
        terminal.expect(r"by 2 messages")
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 0)

    def test_a_full_disk_on_save_keeps_the_session_and_shows_in_the_exit_code(self):
        terminal = self.start("-n", 4)
        terminal.line("/save /dev/full")
        terminal.expect(r"tandem: /dev/full: [^\n]*No space left on device")
        self.ask(terminal, "Still there?")
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 1)

    def test_a_save_that_works_after_all_ends_well(self):
        terminal = self.start("-n", 4)
        terminal.line("/save no/such/directory/talk.json")
        terminal.expect(r"tandem: no/such/directory/talk\.json: ")
        terminal.line("/save talk.json")
        terminal.expect(r"0 messages saved")
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 0)

    def test_bad_files_to_load(self):
        self.write("bad.json", "{")
        self.write("odd.json", '[{"role": "wizard", "content": "x"}]')
        terminal = self.start()
        for name, message in (("missing.json", "No such file"), ("bad.json", "not valid JSON"), ("odd.json", "wizard")):
            terminal.line("/load " + name)
            terminal.expect(r"tandem: " + name + r": [^\n]*" + message)
        terminal.line("/load")
        terminal.expect(r"needs the name of a file")
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 0)

    def test_settings_are_checked(self):
        terminal = self.start()
        for line, answer in (("/set temperature 0.5", "temperature is 0.5"), ("/set top-k 3", "top_k is 3"),
                             ("/set temperature hot", "'hot' is not a number"), ("/set top_p 7", "from 0 to 1"),
                             ("/set colour red", "colour: unknown parameter"), ("/set", "repeat_penalty"),
                             ("/set system Be brief.", "system is Be brief."), ("/set system", "system is none"),
                             ("/set grammar json", "grammar is json"), ("/set grammar {}}", "schema: "),
                             ("/set grammar", "grammar is none"),
                             ("/set seed 4", "seed is 4"), ("/frobnicate", "/frobnicate: unknown command"),
                             ("/help", "/load")):
            terminal.line(line)
            terminal.expect(answer.replace(".", r"\."))
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 0)

    def test_input_of_several_lines(self):
        terminal = self.start("-n", 2)
        terminal.line("first \\")
        terminal.expect(r"\.\.\. ")
        self.ask(terminal, "second")
        terminal.line('"""')
        terminal.expect(r"\.\.\. ")
        terminal.line("/bye is text here")
        terminal.expect(r"\.\.\. ")
        self.ask(terminal, 'end"""')
        terminal.line("/save talk.json")
        terminal.expect(r"4 messages saved")
        with open(self.path("talk.json"), encoding="utf-8") as file:
            messages = json.load(file)["messages"]
        self.assertEqual(messages[0]["content"], "first \nsecond")
        self.assertEqual(messages[2]["content"], "/bye is text here\nend")
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 0)

    def test_history_outlives_the_program(self):
        terminal = self.start()
        terminal.line("/set max_tokens 17")
        terminal.expect(r"max_tokens is 17")
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 0)
        self.assertTrue(os.path.exists(self.path(".local", "state", "tandem", "history")))
        terminal = self.start()
        terminal.type("\x1b[A\x1b[A\r")  # twice up
        terminal.expect(r"max_tokens is 17")
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 0)

    def test_no_place_for_the_history_is_no_trouble(self):
        for home in ("/proc/nowhere", ""):
            terminal = self.start(HOME=home, XDG_STATE_HOME="")
            terminal.line("/bye")
            self.assertEqual(terminal.end(), 0)

    def test_letters_beyond_ascii_also_without_a_locale(self):
        terminal = self.start("-n", 1, LC_ALL="C")
        self.ask(terminal, "gr\u00fc\u00dfe \U0001f98a")
        terminal.line("/save talk.json")
        terminal.expect(r"saved")
        with open(self.path("talk.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["messages"][0]["content"], "gr\u00fc\u00dfe \U0001f98a")
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 0)

    def test_a_full_context_forgets_the_oldest_messages(self):
        terminal = self.start("--context", 96, "-n", 24, "--seed", 1)
        terminal.line("Tell me a story about a fox and a lantern.")
        for _ in range(8):
            terminal.expect(r">>> ")
            terminal.line("Tell me another story about a bear and a boat.")
        terminal.expect(r"the context of 96 tokens is full: forgot the \d+ oldest messages")
        terminal.expect(r">>> ")
        terminal.line("long " * 200)
        terminal.expect(r"tandem: \d+ tokens do not fit")
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 0)

    def test_a_model_file_that_gets_shorter_is_named(self):
        self.ok("quantize", "tales", self.path("model.gguf"), "--type", "f16")
        terminal = self.start(model="model.gguf")
        os.truncate(self.path("model.gguf"), 4096)
        terminal.line("Hello.")
        terminal.expect(r"tandem: /[^\n]*/model\.gguf: the file got shorter[^\n]*\n")
        self.assertEqual(terminal.end(), 1)

    def test_closing_line_can_be_left_out(self):
        terminal = harness.Terminal(["run", "tales", "-q", "-n", "3"], self.environment(), self.directory)
        self.addCleanup(terminal.kill)
        terminal.expect(r">>> ")
        terminal.line("Hello.")
        terminal.expect(r">>> ")
        self.assertNotIn("tokens/s", terminal.shown)
        terminal.line("/bye")
        self.assertEqual(terminal.end(), 0)


if __name__ == "__main__":
    harness.main()
