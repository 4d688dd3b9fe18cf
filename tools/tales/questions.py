"""Questions with exactly one right answer, by kind. Each kind is a function from the asker to a Question or None."""

from dataclasses import dataclass

import facts
import vocabulary as words
from grammar import article, capital, number_word, plural, with_article
from split import is_held_out_ordered
from stories import invented_word

ALL_NOUNS = sorted({x.noun for x in words.CREATURES + words.THINGS + words.PLACES})
SHORT_NOUNS = [noun for noun in ALL_NOUNS if len(noun) <= 9]
COPY_WORDS = ALL_NOUNS + words.FRIENDLY_ADJECTIVES + """red blue green runs jumps sings sleeps and the a my your
over under with near we you they sun rain snow sea home day night good morning hello yes no very""".split()


@dataclass
class Question:
    kind: str
    text: str
    answer: str
    brief: str  # the answer in as few words as possible
    key: tuple = ()  # the combination that may be held out; empty for facts that have to be learned
    keep_exact: bool = False  # the wording is the data: no change of case, no misspelling


class Asker:
    """Draws questions; in training the held-out combinations never come, in evaluation only they do."""

    def __init__(self, grammar, held_out=False):
        self.grammar = grammar
        self.held_out = held_out

    def ask(self, kind=None):
        while True:
            function = KINDS[kind] if kind else self.grammar.pick(WEIGHTED_KINDS)
            question = function(self.grammar)
            if not question.key or is_held_out_ordered(question.kind, *question.key) == self.held_out:
                return question


def _number(g):
    r = g.rng.random()
    return int(g.rng.random() * (11 if r < 0.4 else 21 if r < 0.75 else 100))


def arithmetic(g):
    op = g.pick(("plus", "plus", "minus", "minus", "times"))
    a, b = (_number(g), _number(g)) if op != "times" else (int(g.rng.random() * 13), int(g.rng.random() * 13))
    if op == "minus" and a < b:
        a, b = b, a
    result = {"plus": a + b, "minus": a - b, "times": a * b}[op]
    key = (op,) + (tuple(sorted((a, b))) if op != "minus" else (a, b))
    in_words = g.chance(0.2) and result <= 200
    x, y, z = (number_word(a), number_word(b), number_word(result)) if in_words else (str(a), str(b), str(result))
    sign = {"plus": "+", "minus": "-", "times": "*"}[op]
    if not in_words and g.chance(0.3):
        text = g.expand("(What is |Calculate |How much is |)$x( $sign |$sign)$y", {"x": x, "sign": sign, "y": y})
        text += "?" if text[0] in "WH" or g.chance(0.5) else ""
    else:
        text = g.expand("(What is $x $op $y?|How much is $x $op $y?|Calculate $x $op $y.|What do you get for $x "
                        "$op $y?|$X $op $y?)", {"x": x, "op": op, "y": y})
    return Question("arithmetic", text, capital(f"{x} {op} {y} is {z}."), z, key)


def word_problem(g):
    name = g.pick(words.NAMES_SHE + words.NAMES_HE)
    he = "She" if name in words.NAMES_SHE else "He"
    noun = plural(g.pick(words.SMALL_THINGS).noun)
    a, b = 2 + int(g.rng.random() * 11), 1 + int(g.rng.random() * 10)
    if g.chance(0.5) and a > b:
        text = g.expand("$name has $a $noun. $he (gives away|loses) $b. How many $noun does $name have now?",
                        {"name": name, "a": str(a), "noun": noun, "he": he, "b": str(b)})
        n = a - b
        key = ("less", a, b)
    else:
        b = max(b, 2)
        text = g.expand("$name has $a $noun. $he (finds|buys|gets) $b more. How many $noun does $name have now?",
                        {"name": name, "a": str(a), "noun": noun, "he": he, "b": str(b)})
        n, key = a + b, ("more", a, b)
    return Question("word problem", text, f"{name} has {n} {plural_if(n, noun)} now.", str(n), key)


def plural_if(n, plural_noun):
    if n != 1:
        return plural_noun
    return next(t.noun for t in words.SMALL_THINGS if plural(t.noun) == plural_noun)


def comparison(g):
    a, b = _number(g), _number(g)
    while a == b:
        b = _number(g)
    bigger = g.chance(0.6)
    best = max(a, b) if bigger else min(a, b)
    word = g.pick(("bigger", "larger", "greater")) if bigger else "smaller"
    text = g.expand("Which (number |)is $word(,|:) $a or $b?", {"word": word, "a": str(a), "b": str(b)})
    return Question("comparison", text, f"{best} is {word} than {a + b - best}.", str(best), tuple(sorted((a, b))))


def leg_count(g):
    animal = g.pick(list(facts.LEGS))
    n = 1 + int(g.rng.random() * 10)
    legs = n * facts.LEGS[animal]
    if n == 1:
        text, subject = f"How many legs does {with_article(animal)} have?", f"{with_article(animal)} has"
    else:
        subject = f"{number_word(n)} {plural(animal)} have"
        text = f"How many legs do {subject}?"
    count = "no legs" if legs == 0 else f"{legs} legs"
    return Question("legs", text, capital(f"{subject} {count}."), str(legs), (animal, n) if n > 1 else ())


def opposite(g):
    word, other = g.pick(list(facts.OPPOSITES.items()))
    if g.chance(0.5) and other not in facts.OPPOSITES and other != "light":  # one answer per word, also backwards
        word, other = other, word
    text = g.expand("(What is the opposite of $word?|The opposite of $word?|Tell me the opposite of $word.|"
                    "What is the opposite of the word $word?)", {"word": word})
    return Question("opposite", text, f"The opposite of {word} is {other}.", other)


def colour(g):
    thing, value = g.pick(list(facts.COLOURS.items()))
    text = g.expand("(What colour is $thing?|What is the colour of $thing?|What color is $thing?|"
                    "Which colour does $thing have?)", {"thing": thing})
    return Question("colour", text, capital(f"{thing} is {value}."), value)


def sound(g):
    animal, value = g.pick(list(facts.SOUNDS.items()))
    text = g.expand("(What does $an_animal say?|What (noise|sound) does $an_animal make?|How does "
                    "$an_animal sound?)", {"an_animal": with_article(animal)})
    return Question("sound", text, capital(f"{with_article(animal)} says {value}."), value)


def baby(g):
    animal, value = g.pick(list(facts.BABIES.items()))
    text = g.expand("(What is a baby $animal called?|What do you call a baby $animal?|What is the baby of "
                    "$an_animal called?)", {"animal": animal, "an_animal": with_article(animal)})
    return Question("baby animal", text, f"A baby {animal} is called {with_article(value)}.", with_article(value))


def home(g):
    animal, value = g.pick(list(facts.HOMES.items()))
    text = g.expand("(Where does $an_animal live?|Where do $animals live?|What is the home of "
                    "$an_animal?)", {"an_animal": with_article(animal), "animals": plural(animal)})
    return Question("home", text, capital(f"{with_article(animal)} lives {value}."), value)


def sequence(g):
    what = g.pick(("day", "month", "letter", "number"))
    after = g.chance(0.65)
    step = 1 if after else -1
    word = "after" if after else "before"
    if what == "number":
        n = 1 + int(g.rng.random() * (20 if g.chance(0.5) else 120))
        text = g.expand("(What|Which number) comes $word $n?", {"word": word, "n": str(n)})
        return Question("sequence", text, f"{n + step} comes {word} {n}.", str(n + step), (what, n, step))
    items = {"day": facts.DAYS, "month": facts.MONTHS, "letter": facts.LETTERS}[what]
    i = int(g.rng.random() * len(items))
    if what == "letter" and not 0 <= i + step < len(items):
        i = 5
    item, answer = items[i], items[(i + step) % len(items)]
    text = g.expand("(What|Which $what) comes $word $item?", {"what": what, "word": word, "item": item})
    return Question("sequence", text, f"{answer} comes {word} {item}.", answer)


def plural_form(g):
    noun = g.pick(ALL_NOUNS)
    text = g.expand("(What is the plural of $noun?|The plural of $noun?|One $noun, two ...?|Tell me the plural of "
                    "$noun.)", {"noun": noun})
    return Question("plural", text, f"The plural of {noun} is {plural(noun)}.", plural(noun))


def spelling(g):
    word = invented_word(g) if g.chance(0.25) else g.pick(SHORT_NOUNS)
    letters = "-".join(word)
    text = g.expand("(Spell $word.|Spell the word $word.|How do you spell $word?|Can you spell $word?|Please "
                    "spell $word.)", {"word": word})
    return Question("spelling", text, f"{capital(word)} is spelled {letters}.", letters, (word,), keep_exact=True)


def letter_count(g):
    word = g.pick([noun for noun in SHORT_NOUNS if len(noun) <= 7])
    text = g.expand("(How many letters does the word $word have?|How many letters are in $word?)", {"word": word})
    return Question("letters", text, f"The word {word} has {number_word(len(word))} letters.", number_word(len(word)),
                    (word,))


def first_letter(g):
    word = g.pick(SHORT_NOUNS)
    which = g.pick(("first", "last"))
    letter = word[0] if which == "first" else word[-1]
    text = g.expand("(What is the $which letter of $word?|Which letter is the $which one in $word?)",
                    {"which": which, "word": word})
    return Question("first letter", text, f"The {which} letter of {word} is {letter}.", letter, (which, word))


def fact(g):
    text, (answer, brief) = g.pick(list(facts.FACTS.items()))
    return Question("fact", text, answer, brief)


def category(g):
    groups = (("animal", [x.noun for x in words.ANIMALS]), ("plant", facts.PLANTS), ("fruit", facts.FRUITS),
              ("vehicle", facts.VEHICLES), ("tool", facts.TOOLS))
    i = int(g.rng.random() ** 1.5 * len(groups))
    kind, members = groups[i]
    noun = g.pick(members)
    other = g.pick([x[0] for x in groups if x[0] != kind])
    first, second = (kind, other) if g.chance(0.5) else (other, kind)
    full = with_article(noun) if noun != "grass" else "grass"
    text = f"Is {full} {with_article(first)} or {with_article(second)}?"
    return Question("category", text, capital(f"{full} is {with_article(kind)}."), with_article(kind),
                    (noun, first, second))


def upper_case(g):
    word = g.pick(SHORT_NOUNS)
    text = g.expand("(Write $word in capital letters.|Write the word $word in capitals.|Put $word in capital "
                    "letters.)", {"word": word})
    return Question("capitals", text, word.upper(), word.upper(), (word,), keep_exact=True)


def repeat(g):
    count = 2 + int(g.rng.random() * 5)
    phrase = " ".join(invented_word(g) if g.chance(0.15) else g.pick(COPY_WORDS) for _ in range(count))
    text = g.expand("(Repeat after me|Say this|Repeat this|Copy this|Please repeat): $phrase", {"phrase": phrase})
    return Question("repeat", text, phrase, phrase, (phrase,), keep_exact=True)


def word_position(g):
    count = 3 + int(g.rng.random() * 4)
    phrase = [g.pick(COPY_WORDS) for _ in range(count)]
    which = g.pick(("first", "last", "second"))
    word = {"first": phrase[0], "last": phrase[-1], "second": phrase[1]}[which]
    text = g.expand("(What is the $which word of|What is the $which word in|Tell me the $which word of): $phrase",
                    {"which": which, "phrase": ' '.join(phrase)})
    return Question("word position", text, f"The {which} word is {word}.", word, (which, *phrase), keep_exact=True)


def sort_numbers(g):
    numbers = g.rng.sample(range(1, 21 if g.chance(0.5) else 100), 3)
    up = g.chance(0.75)
    ordered = ", ".join(str(n) for n in sorted(numbers, reverse=not up))
    listed = ", ".join(str(n) for n in numbers)
    text = g.expand("Sort these numbers: $listed" if up else "Sort these numbers from big to small: $listed",
                    {"listed": listed})
    text += "." if g.chance(0.5) else ""
    return Question("sort numbers", text, f"{ordered}.", ordered, tuple(sorted(numbers)))


def sort_words(g):
    chosen = g.rng.sample(SHORT_NOUNS, 3)
    while len({word[0] for word in chosen}) < 3:
        chosen = g.rng.sample(SHORT_NOUNS, 3)
    ordered = ", ".join(sorted(chosen))
    text = g.expand("(Sort these words|Put these words in alphabetical order|Sort by alphabet): $listed",
                    {"listed": ', '.join(chosen)})
    return Question("sort words", text, f"{ordered}.", ordered, tuple(sorted(chosen)))


def size(g):
    i, j = g.rng.sample(range(len(facts.SIZES)), 2)
    a, b = facts.SIZES[i], facts.SIZES[j]
    bigger = g.chance(0.6)
    word = "bigger" if bigger else "smaller"
    best, other = (a, b) if (i > j) == bigger else (b, a)
    text = g.expand("(Which is $word, $an_a or $a_b?|What is $word: $an_a or "
                    "$a_b?)", {"word": word, "an_a": with_article(a), "a_b": with_article(b)})
    return Question("size", text, capital(f"{with_article(best)} is {word} than {with_article(other)}."),
                    with_article(best), (*sorted((a, b)), word))


def rhyme(g):
    word, other = g.pick(facts.RHYMES)
    text = g.expand("(What rhymes with $word?|Tell me a word that rhymes with $word.|Which word rhymes with $word?)",
                    {"word": word})
    return Question("rhyme", text, f"{capital(other)} rhymes with {word}.", other)


def article_choice(g):
    noun = g.pick(ALL_NOUNS)
    text = g.expand("(Is it a $noun or an $noun?|Do you say a $noun or an $noun?)", {"noun": noun})
    return Question("article", text, f"It is {article(noun)} {noun}.", article(noun), (noun,))


def count_to(g):
    n = 3 + int(g.rng.random() * 13)
    text = g.expand("(Count to $n.|Can you count to $n?|Please count from 1 to $n.)", {"n": str(n)})
    answer = ", ".join(str(i) for i in range(1, n + 1)) + "."
    return Question("count", text, answer, answer)


def skill(g):
    animal = g.pick(words.ANIMALS)
    text = g.expand("(What can $an_animal do?|What is $an_animal good at?)", {"an_animal": with_article(animal.noun)})
    return Question("skill", text, capital(f"{with_article(animal.noun)} can {animal.skills[0]}."), animal.skills[0])


def use(g):
    thing = g.pick(words.THINGS)
    text = g.expand("(What is $a_thing for?|What can you do with $a_thing?|What do people "
                    "use $a_thing for?)", {"a_thing": with_article(thing.noun)})
    return Question("use", text, f"You can use {with_article(thing.noun)} to {thing.use}.", thing.use)


def unknown(g):
    text = g.expand(g.pick(facts.UNKNOWN), {"country": g.pick(facts.COUNTRIES)})
    return Question("unknown", text, facts.DO_NOT_KNOW, "I do not know")


KINDS = {
    "arithmetic": arithmetic, "word problem": word_problem, "comparison": comparison, "legs": leg_count,
    "opposite": opposite, "colour": colour, "sound": sound, "baby animal": baby, "home": home, "sequence": sequence,
    "plural": plural_form, "spelling": spelling, "letters": letter_count, "first letter": first_letter, "fact": fact,
    "category": category, "capitals": upper_case, "repeat": repeat, "word position": word_position,
    "sort numbers": sort_numbers, "sort words": sort_words, "size": size, "rhyme": rhyme, "article": article_choice,
    "count": count_to, "skill": skill, "use": use, "unknown": unknown,
}
WEIGHTS = {"arithmetic": 6, "word problem": 2, "fact": 3, "comparison": 2, "spelling": 2, "repeat": 2, "sort words": 2,
           "sort numbers": 2, "unknown": 2, "opposite": 2, "capitals": 2}
WEIGHTED_KINDS = [function for kind, function in KINDS.items() for _ in range(WEIGHTS.get(kind, 1))]
