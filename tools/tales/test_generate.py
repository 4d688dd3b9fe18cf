#!/usr/bin/env python3
"""Tests of the text generator: run with python3 -m unittest in this folder."""

import itertools
import random
import re
import unittest

import facts
import plots
import vocabulary as words
from conversations import KINDS as DOCUMENT_KINDS, Writer
from generate import render
from grammar import Grammar, Template, article, number_word, plural, with_article
from questions import KINDS, Asker
from split import is_held_out, is_held_out_ordered
from stories import StoryTeller, request_text


def documents(count, seed=1, held_out=False, kind=None):
    writer = Writer(random.Random(seed), held_out)
    return [writer.document(kind) for _ in range(count)]


def tell(count, seed=1, held_out=False):
    teller = StoryTeller(Grammar(random.Random(seed)), held_out)
    return [teller.tell(teller.wish()) for _ in range(count)]


class GrammarTest(unittest.TestCase):
    def test_articles_follow_the_sound(self):
        for word, expected in {"apple": "an", "fox": "a", "unicorn": "a", "honest": "an", "hour": "an"}.items():
            self.assertEqual(article(word), expected, word)
        self.assertEqual(with_article("old fox"), "an old fox")

    def test_plurals(self):
        for noun, expected in {"fox": "foxes", "mouse": "mice", "fairy": "fairies", "monkey": "monkeys",
                               "leaf": "leaves",
                               "key": "keys", "wish": "wishes", "sheep": "sheep", "box": "boxes"}.items():
            self.assertEqual(plural(noun), expected)

    def test_number_words(self):
        self.assertEqual([number_word(n) for n in (0, 13, 40, 99, 100, 144)],
                         ["zero", "thirteen", "forty", "ninety-nine", "one hundred", "one hundred and forty-four"])

    def test_templates_choose_and_fill(self):
        rng = random.Random(1)
        seen = {Template("(a|b(c|)) $x $X").expand(rng, {"x": "fox"}) for _ in range(200)}
        self.assertEqual(seen, {"a fox Fox", "b fox Fox", "bc fox Fox"})


class StoryTest(unittest.TestCase):
    def test_every_requested_noun_is_mentioned(self):
        for held_out in (False, True):
            for story in tell(3000, held_out=held_out):
                for noun in story.wish.nouns():
                    self.assertRegex(story.text.lower(), rf"\b{noun}\b", story.text)

    def test_requested_names_and_traits_are_used(self):
        for story in tell(3000, seed=2):
            for wanted in (story.wish.name, story.wish.trait):
                if wanted:
                    self.assertIn(wanted, story.text)

    def test_requests_name_every_noun(self):
        grammar = Grammar(random.Random(4))
        teller = StoryTeller(grammar)
        for _ in range(2000):
            wish = teller.wish()
            text = request_text(grammar, wish)
            for noun in wish.nouns():
                self.assertIn(noun, text)

    def test_text_is_well_formed(self):
        for story in tell(4000, seed=3):
            text = story.text
            self.assertNotRegex(text, r"\b(\w+) \1\b(?<!long long)", text)  # "the the"
            self.assertNotRegex(text, r"\ba [aeio]", text)
            self.assertNotRegex(text, r"\ban [^aeiouh]", text)
            self.assertNotRegex(text, r"[$|()]|  | [.,!?]|\.\.", text)
            self.assertNotRegex(text, r"(?<=[a-z][.!?] )[a-z]", text)
            self.assertRegex(text, r"^[A-Z\"].*[.!?]\"?$")
            self.assertEqual(text.count('"') % 2, 0, text)

    def test_no_sentence_comes_twice(self):
        for story in tell(2000, seed=5):
            sentences = [s for s in re.split(r"(?<=[.!?])\"?\s+", story.text) if len(s) > 25]
            self.assertEqual(len(sentences), len(set(sentences)), story.text)

    def test_only_pronouns_of_the_cast_appear(self):
        for story in tell(3000, seed=6):
            used = set(re.findall(r"\b(he|him|his|himself|she|her|herself)\b", story.text.lower()))
            cast = {story.slots["he"], story.slots["fhe"]}
            if cast == {"she"}:
                self.assertFalse(used & {"he", "him", "his", "himself"}, story.text)
            if cast == {"he"}:
                self.assertFalse(used & {"she", "her", "herself"}, story.text)

    def test_stories_vary(self):
        self.assertGreater(len({story.text for story in tell(3000, seed=7)}), 2990)

    def test_every_plot_is_told_and_every_moral_has_one(self):
        self.assertEqual({story.plot.name for story in tell(3000, seed=8)}, {plot.name for plot in plots.PLOTS})
        small = set(itertools.chain(*(plot.morals for plot in plots.PLOTS if plot.thing == plots.SMALL)))
        self.assertEqual(small, set(words.MORALS))

    def test_answers_about_a_story_stand_in_it(self):
        for story in tell(1500, seed=9):
            for question, answer in story.questions:
                self.assertTrue(question.endswith("?") and answer.endswith("."))
                for slot in ("spot", "nice_thing"):
                    value = story.slots[slot]
                    if value in answer:
                        self.assertIn(value, story.text)


class QuestionTest(unittest.TestCase):
    def ask(self, kind, count=600, held_out=False):
        asker = Asker(Grammar(random.Random(11)), held_out)
        return [asker.ask(kind) for _ in range(count)]

    def test_arithmetic_is_right(self):
        operations = {"plus": lambda a, b: a + b, "minus": lambda a, b: a - b, "times": lambda a, b: a * b}
        for question in self.ask("arithmetic"):
            match = re.fullmatch(r"(\d+) (plus|minus|times) (\d+) is (\d+)\.", question.answer)
            if match:
                a, op, b, result = match.groups()
                self.assertEqual(operations[op](int(a), int(b)), int(result))
                self.assertEqual(re.findall(r"\d+", question.text), [a, b])

    def test_word_problems_are_right(self):
        for question in self.ask("word problem"):
            a, b = map(int, re.findall(r"\d+", question.text))
            expected = a + b if "more" in question.text else a - b
            self.assertIn(f" {expected} ", question.answer)

    def test_sorting_and_comparing_are_right(self):
        for question in self.ask("sort numbers"):
            given, sorted_numbers = (list(map(int, re.findall(r"\d+", t))) for t in (question.text, question.answer))
            self.assertEqual(sorted_numbers, sorted(given, reverse="big to small" in question.text))
        for question in self.ask("sort words"):
            given = question.text.split(": ")[1].split(", ")
            self.assertEqual(question.answer, ", ".join(sorted(given)) + ".")
        for question in self.ask("comparison"):
            best, other = map(int, re.findall(r"\d+", question.answer))
            self.assertEqual(best < other, "smaller" in question.text)

    def test_copies_and_spellings_are_right(self):
        for question in self.ask("repeat"):
            self.assertTrue(question.text.endswith(": " + question.answer))
        for question in self.ask("spelling"):
            self.assertIn(question.answer.split()[-1].strip(".").replace("-", ""), question.text)

    def test_legs(self):
        for question in self.ask("legs"):
            if question.key:
                animal, n = question.key
                self.assertEqual(int(question.brief), n * facts.LEGS[animal])

    def test_facts_have_one_answer(self):
        for kind in ("opposite", "colour", "sound", "baby animal", "home", "rhyme", "plural"):
            answers = {}
            for question in self.ask(kind, 2000):
                subject = question.text.lower().rstrip("?.")
                self.assertEqual(answers.setdefault(subject, question.answer), question.answer)

    def test_every_answer_has_a_brief_form(self):
        for kind in KINDS:
            for question in self.ask(kind, 50):
                self.assertTrue(question.text and question.answer and question.brief, kind)


class SplitTest(unittest.TestCase):
    def test_training_stories_hold_no_held_out_pair(self):
        for story in tell(3000, seed=12):
            nouns = {story.hero.noun, story.friend.noun, story.slots["thing"]} | \
                ({story.wish.extra.noun} if story.wish.extra else set())
            for a, b in itertools.combinations(sorted(nouns), 2):
                self.assertFalse(is_held_out(a, b), (a, b))

    def test_held_out_stories_hold_one(self):
        for story in tell(500, seed=13, held_out=True):
            self.assertTrue(is_held_out(story.wish.hero.noun, story.wish.thing.noun))

    def test_questions_keep_to_their_side(self):
        for held_out in (False, True):
            asker = Asker(Grammar(random.Random(14)), held_out)
            for _ in range(3000):
                question = asker.ask()
                if question.key:
                    self.assertEqual(is_held_out_ordered(question.kind, *question.key), held_out)

    def test_about_one_pair_in_twenty_is_held_out(self):
        pairs = [(a.noun, b.noun) for a in words.CREATURES for b in words.THINGS]
        share = sum(is_held_out(*pair) for pair in pairs) / len(pairs)
        self.assertTrue(0.04 < share < 0.06, share)


class DocumentTest(unittest.TestCase):
    def test_the_same_seed_gives_the_same_documents(self):
        self.assertEqual([render(d) for d in documents(300)], [render(d) for d in documents(300)])
        self.assertNotEqual([render(d) for d in documents(5, seed=1)], [render(d) for d in documents(5, seed=2)])

    def test_turns_alternate_and_end_with_the_model(self):
        for kind in DOCUMENT_KINDS:
            for document in documents(100, kind=kind):
                roles = [role for role, _ in document.messages]
                if roles != ["text"]:
                    self.assertEqual(roles, ["user", "model"] * (len(roles) // 2), kind)
                for _, text in document.messages:
                    self.assertEqual(text, text.strip())
                    self.assertTrue(text)

    def test_a_name_is_remembered(self):
        for document in documents(300, kind="memory"):
            name = re.match(r"Hello, (\w+)!", document.messages[1][1]).group(1)
            self.assertTrue(any(text == f"Your name is {name}." for _, text in document.messages))


if __name__ == "__main__":
    unittest.main()
