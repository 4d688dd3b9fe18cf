"""tandem run at a terminal: the conversation, its commands, pasted texts, Tab, Ctrl-C, history."""

import json
import os
import signal

import harness
from harness import data


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

    def saved(self, terminal):
        """The messages of the conversation so far."""
        terminal.line("/save saved.json")
        terminal.expect(r"messages saved to saved\.json")
        terminal.expect(r">>> ")
        with open(self.path("saved.json"), encoding="utf-8") as file:
            return json.load(file)["messages"]

    def leave(self, terminal, command="/bye", code=0):
        terminal.line(command)
        self.assertEqual(terminal.end(), code)

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

    def test_what_is_pasted_is_one_message_and_waits_for_enter(self):
        terminal = self.start("-n", 2)
        terminal.paste("first line\n\tsecond \\\n/bye\n\nlast\n")
        terminal.expect(r"last")
        terminal.type(" words")
        self.ask(terminal, "")
        self.assertEqual(self.saved(terminal)[0]["content"], "first line\n\tsecond \\\n/bye\n\nlast words")
        self.assertEqual(len(self.saved(terminal)), 2)
        self.leave(terminal)

    def test_what_is_pasted_can_be_taken_back_and_comes_again_from_the_history(self):
        terminal = self.start("-n", 2)
        terminal.paste("one\ntwo")
        terminal.expect(r"two")
        terminal.interrupt()
        terminal.expect(r">>> ")
        self.assertEqual(self.saved(terminal), [])
        terminal.paste("three\nfour")
        self.ask(terminal, "")
        self.ask(terminal, "\x1b[A")
        self.assertEqual([m["content"] for m in self.saved(terminal) if m["role"] == "user"], ["three\nfour"] * 2)
        self.leave(terminal)

    def test_a_long_paste(self):
        terminal = self.start("-n", 1)
        text = "\n".join(f"line {i}" for i in range(100))
        terminal.paste(text)
        self.ask(terminal, "")
        self.assertEqual(self.saved(terminal)[0]["content"], text)
        self.leave(terminal)

    def test_a_path_is_text_and_no_command(self):
        terminal = self.start("-n", 1)
        self.ask(terminal, "/usr/share/dict/words")
        self.assertEqual(self.saved(terminal)[0]["content"], "/usr/share/dict/words")
        self.leave(terminal)

    def test_the_terminal_is_left_as_it_was(self):
        terminal = self.start("-n", 1)
        self.assertTrue(terminal.marks_pastes())
        self.assertFalse(terminal.is_cooked())
        self.leave(terminal)
        self.assertFalse(terminal.marks_pastes())
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            terminal = self.start()
            os.kill(terminal.pid, number)
            self.assertEqual(terminal.end(lambda: self.assertTrue(terminal.is_cooked())), -number)
            self.assertFalse(terminal.marks_pastes())

    def test_a_terminal_without_control_sequences_gets_none(self):
        terminal = self.start("-n", 2, TERM="dumb")
        self.ask(terminal, "Hello.")
        self.leave(terminal)
        self.assertNotIn(b"\x1b", terminal.raw)

    def test_markdown_is_shown_lightly_on_a_terminal(self):
        grammar = self.write("text.gbnf", 'root ::= "# A fox\\n- **red** and `quick`, 2**3\\n```\\nx = **1**\\n```\\n"')
        plain = "# A fox\n- **red** and `quick`, 2**3\n```\nx = **1**\n```\n"
        terminal = self.start("--grammar", grammar, NO_COLOR="")
        self.ask(terminal, "Write.")
        self.assertIn("A fox\n\u2022 red and quick, 2**3\n```\nx = **1**\n```\n", terminal.shown)
        for part in (b"\x1b[1mA fox\x1b[22m", b"\x1b[1mred\x1b[22m", b"\x1b[36mquick\x1b[39m", b"\x1b[36mx = **1**\x1b[39m"):
            self.assertIn(part, terminal.raw)
        self.leave(terminal)
        for options, environment in ((["--no-markdown"], {"NO_COLOR": ""}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"})):
            terminal = self.start("--grammar", grammar, *options, **environment)
            self.ask(terminal, "Write.")
            self.assertIn(plain, terminal.shown)
            self.assertNotIn(b"\x1b[1m", terminal.raw)
            self.leave(terminal)
        self.assertEqual(self.ok("run", "tales", "Write.", "--grammar", grammar), plain + "\n")

    def test_the_closing_line_says_how_full_the_context_is(self):
        terminal = self.start("-n", 20, "--context", 256)
        terminal.line("Tell me a story about a fox.")
        first = terminal.expect(r"\[prompt (\d+) tokens[^\]]*; answer (\d+) tokens[^\]]*; context (\d+) % full")
        self.assertEqual(int(first[3]), 100 * (int(first[1]) + int(first[2])) // 256)
        terminal.expect(r">>> ")
        self.leave(terminal)

    def test_ways_to_leave(self):
        for command in ("/exit", "/quit", "/bye"):
            self.leave(self.start(), command)
        terminal = self.start()
        terminal.interrupt()
        terminal.expect(r"Ctrl-C once more")
        terminal.interrupt()
        self.assertEqual(terminal.end(), 0)

    def test_ctrl_c_after_a_line_does_not_leave(self):
        terminal = self.start()
        for _ in range(2):
            terminal.interrupt()
            terminal.expect(r"Ctrl-C once more")
            terminal.expect(r">>> ")
            terminal.line("/?")
            terminal.expect(r"/retry")
            terminal.expect(r">>> ")
        self.leave(terminal)

    def test_retry_draws_the_answer_anew(self):
        terminal = self.start("-n", 6)
        terminal.line("/retry")
        terminal.expect(r"tandem: nothing was asked yet")
        terminal.expect(r">>> ")
        self.ask(terminal, "Tell me a story about a fox.")
        terminal.line("/set seed 5")
        terminal.expect(r"seed is 5")
        self.ask(terminal, "/retry")
        first = self.saved(terminal)
        self.assertEqual([message["role"] for message in first], ["user", "assistant"])
        terminal.line("/set seed 6")
        terminal.expect(r"seed is 6")
        self.ask(terminal, "/retry")
        second = self.saved(terminal)
        self.assertEqual(second[0], first[0])
        self.assertNotEqual(second[1], first[1])
        self.leave(terminal)

    def test_system_is_set_and_shown(self):
        terminal = self.start()
        for line, shown in (("/system", "There is no system message"), ("/system Be brief.", r"system is Be brief\."),
                            ("/system", r"system is Be brief\."), ("/set system", "system is none")):
            terminal.line(line)
            terminal.expect(shown)
        self.leave(terminal)

    def test_another_model_goes_on_with_the_conversation(self):
        self.ok("quantize", "tales", self.path("other.gguf"), "--type", "f16")
        terminal = self.start("-n", 2, HOME=self.directory)
        self.ask(terminal, "Hello fox.")
        terminal.line("/model")
        terminal.expect(r"\(tales\) on cpu")
        terminal.line("/model ~/other.gguf")
        terminal.expect(r"other\.gguf\) on cpu")
        terminal.expect(r">>> ")
        self.ask(terminal, "And then?")
        for name in ("missing.gguf", "saved.json"):
            self.assertEqual(len(self.saved(terminal)), 4)
            terminal.line("/model " + name)
            terminal.expect(r"tandem: " + name)
            terminal.expect(r">>> ")
        self.ask(terminal, "Still there?")
        terminal.line("/model")
        terminal.expect(r"other\.gguf\) on cpu")
        self.leave(terminal)

    def test_files_in_the_home_folder(self):
        terminal = self.start("-n", 2, HOME=self.path())
        self.ask(terminal, "Hello fox.")
        terminal.line("/save ~/talk.json")
        terminal.expect(r"2 messages saved to ~/talk\.json")
        self.assertTrue(os.path.exists(self.path("talk.json")))
        terminal.line("/clear")
        terminal.line("/load ~/talk.json")
        terminal.expect(r"2 messages loaded")
        self.leave(terminal)

    def test_tab_completes_commands_and_files(self):
        os.mkdir(self.path("talks"))
        self.write("talks/one two.json", '[{"role": "user", "content": "x"}]')
        terminal = self.start()
        terminal.type("/lo\t tal\t\t\r")
        terminal.expect(r"1 messages loaded from talks/one two\.json")
        terminal.expect(r">>> ")
        terminal.type("/s\t")
        terminal.expect(r"/save  /set  /show  /system\n")
        terminal.type("ys\t Be kind.\r")
        terminal.expect(r"system is Be kind\.")
        terminal.expect(r">>> ")
        terminal.type("/set top\tk 7\r")  # as far as the names agree
        terminal.expect(r"top_k is 7")
        self.leave(terminal)

    def test_tab_in_a_text_is_a_character(self):
        terminal = self.start("-n", 1)
        self.ask(terminal, "a\tb")
        self.assertEqual(self.saved(terminal)[0]["content"], "a\tb")
        self.leave(terminal)

    def test_words_are_not_broken_at_the_edge(self):
        question = "Tell me a story about a fox and a lantern."
        whole = self.json("run", "tales", question, "--seed", 3, "-n", 60, "--json")["text"]
        terminal = self.start("--seed", 3, "-n", 60)
        terminal.resize(30)
        terminal.line(question)
        terminal.expect(r"lantern\.\s*\n")
        begin = terminal.mark
        closing = terminal.expect(r"\n\[prompt")
        lines = terminal.shown[begin:closing.start()].split("\n")
        self.assertEqual(" ".join(lines).split(), whole.split())
        self.assertLessEqual(max(map(len, lines)), 30)
        self.assertGreater(len(lines), 3)
        terminal.expect(r">>> ")
        self.leave(terminal)

    def test_a_block_comes_back_from_the_history_as_one(self):
        terminal = self.start("-n", 1)
        for line in ('"""', "/bye is text", "two"):
            terminal.line(line)
            terminal.expect(r"\.\.\. ")
        self.ask(terminal, '"""')
        self.leave(terminal)
        terminal = self.start("-n", 1)  # also from the file of the history
        self.ask(terminal, "\x1b[A\x1b[A")
        self.assertEqual(self.saved(terminal)[0]["content"], "/bye is text\ntwo")
        self.leave(terminal)

    def test_unknown_commands_get_the_nearest_and_the_list(self):
        terminal = self.start()
        terminal.line("/hepl")
        terminal.expect(r"tandem: /hepl: unknown command; did you mean '/help'\? There are /help [^\n]*/quit")
        terminal.line("/set temprature 1")
        terminal.expect(r"did you mean 'temperature'")
        self.leave(terminal)

    def test_thinking_is_switched_where_the_template_can(self):
        terminal = self.start()
        terminal.line("/think off")
        terminal.expect(r"think is off")
        terminal.expect(r"no switch for it")
        terminal.line("/think maybe")
        terminal.expect(r"on, off or default")
        self.leave(terminal)
        template = ("{% for m in messages %}{{ m.content }}{% endfor %}"
                    "{% if enable_thinking is defined and not enable_thinking %} no thoughts please{% endif %}")
        model = harness.make_llama(self.path("thinker"), 1500, data("tokenizers", "spm-bpe-gemma", "tokenizer.model"),
                                   template)
        tokens = {option: self.json("run", model, "Hello", "-n", 1, "--json", *option)["prompt_tokens"]
                  for option in ((), ("--think",), ("--no-think",))}
        self.assertEqual(tokens[()], tokens[("--think",)])
        self.assertGreater(tokens[("--no-think",)], tokens[()])
        terminal = self.start("-n", 1, model=model)
        self.assertEqual(int(self.ask(terminal, "Hello")[1]), tokens[()])
        terminal.line("/clear")
        terminal.line("/think off")
        terminal.expect(r"think is off\n>>> ")
        self.assertEqual(int(self.ask(terminal, "Hello")[1]), tokens[("--no-think",)])
        self.leave(terminal)

    def test_a_full_context_forgets_the_oldest_messages(self):
        terminal = self.start("--context", 96, "-n", 24, "--seed", 1)
        terminal.line("Tell me a story about a fox and a lantern.")
        for _ in range(8):
            terminal.expect(r">>> ")
            terminal.line("Tell me another story about a bear and a boat.")
        terminal.expect(r"the context of 96 tokens is full: forgot the \d+ oldest messages")
        terminal.expect(r">>> ")
        terminal.line("long " * 200)
        terminal.expect(r"tandem: the prompt of \d+ tokens exceeds the available context size of 96")
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
