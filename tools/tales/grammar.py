"""English in small pieces: articles, plurals, number words, and templates with alternatives and slots."""

import re

VOWELS = "aeiou"
# Spelled with a vowel but spoken with a consonant, and the reverse.
CONSONANT_SOUND = ("unicorn", "uni", "use", "one", "ukulele")
VOWEL_SOUND = ("hour", "honest", "heir")

IRREGULAR_PLURALS = {
    "mouse": "mice", "goose": "geese", "sheep": "sheep", "deer": "deer", "fish": "fish", "moose": "moose",
    "wolf": "wolves", "leaf": "leaves", "thief": "thieves", "elf": "elves", "dwarf": "dwarves",
    "child": "children", "man": "men", "woman": "women", "foot": "feet", "tooth": "teeth", "fisherman": "fishermen",
    "postman": "postmen", "snowman": "snowmen", "knife": "knives", "shelf": "shelves", "scarf": "scarves",
    "loaf": "loaves", "ox": "oxen", "person": "people", "calf": "calves", "half": "halves", "wife": "wives",
    "octopus": "octopuses", "piano": "pianos", "radio": "radios", "potato": "potatoes", "tomato": "tomatoes",
    "hero": "heroes", "hippo": "hippos", "kangaroo": "kangaroos", "igloo": "igloos", "zoo": "zoos", "cactus": "cacti",
}

SMALL_NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen""".split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()


def article(word):
    """"a" or "an", by sound rather than by letter."""
    if word.startswith(CONSONANT_SOUND):
        return "a"
    return "an" if word[0].lower() in VOWELS or word.startswith(VOWEL_SOUND) else "a"


def with_article(words):
    return f"{article(words)} {words}"


def plural(noun):
    if noun in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[noun]
    if noun.endswith(("s", "x", "ch", "sh", "z")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in VOWELS:
        return noun[:-1] + "ies"
    return noun + "s"


def number_word(n):
    """0..999 in words; a minus sign becomes the word "minus"."""
    if n < 0:
        return "minus " + number_word(-n)
    if n < 20:
        return SMALL_NUMBERS[n]
    if n < 100:
        return TENS[n // 10] + (f"-{SMALL_NUMBERS[n % 10]}" if n % 10 else "")
    return f"{SMALL_NUMBERS[n // 100]} hundred" + (f" and {number_word(n % 100)}" if n % 100 else "")


def capital(text):
    return text[:1].upper() + text[1:]


def join_words(words):
    words = list(words)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


class Template:
    """Text with (alternatives|like this), which may nest and be empty, and $slots.

    A slot that starts with a capital letter yields its value capitalised. Templates are parsed once; expanding one
    is a walk over tuples, because the generator expands hundreds of millions of words.
    """

    TOKEN = re.compile(r"[(|)]|\$[A-Za-z_]+|[^(|)$]+")

    def __init__(self, text):
        tokens = self.TOKEN.findall(text)
        assert "".join(tokens) == text, f"template cannot be parsed: {text!r}"
        self._parts, end = self._sequence(tokens, 0)
        assert end == len(tokens), f"unbalanced template: {text!r}"

    @classmethod
    def _sequence(cls, tokens, i):
        parts = []
        while i < len(tokens) and tokens[i] not in ("|", ")"):
            token = tokens[i]
            if token == "(":
                options = []
                while token != ")":
                    option, i = cls._sequence(tokens, i + 1)
                    options.append(option)
                    token = tokens[i]
                parts.append(("choice", tuple(options)))
            elif token[0] == "$":
                name = token[1:]
                parts.append(("capital" if name[0].isupper() else "slot", name[0].lower() + name[1:]))
            else:
                parts.append(("text", token))
            i += 1
        return tuple(parts), i

    def expand(self, rng, slots):
        out = []
        self._walk(self._parts, rng.random, slots, out)
        return "".join(out)

    @classmethod
    def _walk(cls, parts, random, slots, out):
        for kind, value in parts:
            if kind == "text":
                out.append(value)
            elif kind == "slot":
                out.append(slots[value])
            elif kind == "capital":
                out.append(capital(slots[value]))
            else:
                cls._walk(value[int(random() * len(value))], random, slots, out)


class Grammar:
    """Expands template strings, each parsed at its first use."""

    def __init__(self, rng):
        self.rng = rng
        self._templates = {}

    def expand(self, text, slots=None):
        template = self._templates.get(text)
        if template is None:
            template = self._templates[text] = Template(text)
        return template.expand(self.rng, slots or {})

    def pick(self, sequence):
        return sequence[int(self.rng.random() * len(sequence))]

    def chance(self, probability):
        return self.rng.random() < probability
