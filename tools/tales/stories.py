"""Stories on request: chooses a cast that contains exactly the nouns asked for, and tells a plot with it."""

from dataclasses import dataclass, field

import plots
import vocabulary as words
from grammar import capital, join_words, with_article
from split import is_held_out

PRONOUNS = {"she": ("she", "her", "her", "herself"), "he": ("he", "him", "his", "himself")}
NO_LITTLE = {"little", "small", "tiny", "huge", "big", "tall", "young", "old"}  # "a huge little whale" is nonsense
NOT_BUILT = {"rainbow", "cloud", "anchor"}
BUILT_THINGS = [thing for thing in words.THINGS if not thing.is_small and thing.noun not in NOT_BUILT]
SYLLABLES = """ba bo bli da do dri fa fi flo ga go gri ka ki la lo lu ma mi mo na ni no pa pi plo ra ri ro sa so ta ti
tu va vi wo za zu""".split()
ENDINGS = "n l m r x p t nk nd s".split()


@dataclass
class Wish:
    """What the reader asks for; every field may stay empty."""

    hero: object = None
    friend: object = None
    thing: object = None
    extra: object = None
    place: object = None
    name: str = ""
    trait: str = ""
    moral: str = ""
    length: str = "normal"  # or "short", "sentence"

    def nouns(self):
        return [x.noun for x in (self.hero, self.friend, self.thing, self.extra, self.place) if x]


@dataclass
class Story:
    text: str
    wish: Wish
    slots: dict
    plot: object
    hero: object
    friend: object
    questions: list = field(default_factory=list)


def invented_word(grammar):
    """A word nobody knows, so that the model learns to copy nouns it has never seen."""
    count = 2 if grammar.chance(0.7) else 3
    ending = grammar.pick(ENDINGS) if grammar.chance(0.6) else ""
    return "".join(grammar.pick(SYLLABLES) for _ in range(count)) + ending


def invented_creature(grammar):
    return words.Creature(invented_word(grammar), tuple(words.FRIENDLY_ADJECTIVES), ("do strange things",))


def invented_thing(grammar):
    model = grammar.pick(words.SMALL_THINGS)
    return words.Thing(invented_word(grammar), ("strange", "little", "old", "shiny"),
                       ("hummed softly", "glowed a little",
                       "made a funny sound"), model.use, True)


def pair_is_held_out(cast):
    """True when any two of the nouns form a pair kept for evaluation."""
    nouns = sorted({x.noun for x in cast if x})
    return any(is_held_out(a, b) for i, a in enumerate(nouns) for b in nouns[i + 1:])


class StoryTeller:
    def __init__(self, grammar, held_out=False):
        self.grammar = grammar
        self.held_out = held_out

    # --- what is asked for ---------------------------------------------------------------------------------------

    def wish(self):
        """A random request. When held out, hero and thing are a pair that training never sees."""
        while True:
            wish = self._any_wish()
            cast = (wish.hero, wish.friend, wish.thing, wish.extra)
            if not self.held_out and not pair_is_held_out(cast):
                return wish
            if self.held_out and wish.hero and wish.thing and is_held_out(wish.hero.noun, wish.thing.noun):
                return wish

    def _any_wish(self):
        g = self.grammar
        shape = g.pick(("h", "t", "p", "hf", "ht", "ht", "ht", "ht", "hp", "tp", "htp", "htp", "hft", "hfp", "te",
                        "hte", ""))
        if self.held_out:
            shape = g.pick(("ht", "ht", "htp", "hft"))
        invented = 0.0 if self.held_out else 0.04
        wish = Wish()
        if "h" in shape:
            wish.hero = invented_creature(g) if g.chance(invented) else self._creature()
        if "f" in shape:
            wish.friend = self._other_creature(wish.hero)
        if "t" in shape:
            wish.thing = invented_thing(g) if g.chance(invented) else g.pick(words.THINGS)
        if "e" in shape:
            wish.extra = self._other_thing(wish.thing)
        if "p" in shape:
            wish.place = g.pick(words.PLACES)
        if wish.hero and g.chance(0.15):
            wish.name = self.name(wish.hero.gender or g.pick(("she", "he")))
        elif wish.hero and g.chance(0.12):
            wish.trait = g.pick(wish.hero.traits if g.chance(0.5) else words.FRIENDLY_ADJECTIVES)
        if g.chance(0.08) and (wish.thing is None or wish.thing.is_small):  # every moral has a plot for small things
            wish.moral = g.pick(list(words.MORALS))
        if g.chance(0.2):
            wish.length = g.pick(("short", "short", "sentence"))
        return wish

    def _creature(self):
        return self.grammar.pick(words.ANIMALS if self.grammar.chance(0.65) else words.PEOPLE)

    def _other_creature(self, hero):
        while True:
            friend = self._creature()
            if hero is None or friend.noun != hero.noun:
                return friend

    def _other_thing(self, thing):
        while True:
            other = self.grammar.pick(words.SMALL_THINGS)
            if other.noun != thing.noun:
                return other

    def name(self, gender):
        if self.grammar.chance(0.1):
            return capital(invented_word(self.grammar))
        return self.grammar.pick(words.NAMES_SHE if gender == "she" else words.NAMES_HE)

    # --- what is told ----------------------------------------------------------------------------------------------

    def tell(self, wish):
        hero, friend, thing, place, plot = self._cast(wish)
        slots = self._slots(wish, hero, friend, thing, place)
        for name, values in plot.values:
            slots[name] = self.grammar.pick(values)
        if wish.length == "sentence":
            sentence = self.grammar.pick(plots.ONE_SENTENCE)
            text = self.grammar.expand(sentence, slots)
            if wish.extra:
                text = text[:-1] + f", and there was {slots['an_extra']} too."
            return Story(text, wish, slots, plot, hero, friend)
        text = " ".join(self._sentences(plot, wish, slots))
        return Story(text, wish, slots, plot, hero, friend, self._questions(plot, wish, slots, hero, friend, place))

    def _cast(self, wish):
        g = self.grammar
        while True:
            plot = g.pick(plots.PLOTS)
            if wish.moral and wish.moral not in plot.morals:
                continue
            thing = wish.thing or g.pick(words.SMALL_THINGS if plot.thing == plots.SMALL else
                                         BUILT_THINGS if plot.thing == plots.BUILT else words.THINGS)
            if plot.thing == plots.SMALL and not thing.is_small:
                continue
            if plot.thing == plots.BUILT and thing not in BUILT_THINGS:
                continue
            hero = wish.hero or self._creature()
            friend = wish.friend or self._other_creature(hero)
            if friend.noun == hero.noun or (wish.extra and wish.extra.noun == thing.noun):
                continue
            if not self.held_out and pair_is_held_out((hero, friend, thing, wish.extra)):
                continue
            return hero, friend, thing, wish.place or g.pick(words.PLACES), plot

    def _introduction(self, creature, trait, name):
        g = self.grammar
        trait = trait or g.pick(creature.traits if g.chance(0.6) else words.FRIENDLY_ADJECTIVES)
        little = " little" if trait not in NO_LITTLE and g.chance(0.25) else ""
        called = f" {g.pick(('named', 'named', 'called'))} {name}" if name else ""
        return with_article(f"{trait}{little} {creature.noun}{called}")

    def _slots(self, wish, hero, friend, thing, place):
        g = self.grammar
        gender = hero.gender or ("she" if wish.name in words.NAMES_SHE else "he" if wish.name in words.NAMES_HE
                                 else g.pick(("she", "he")))
        other = "he" if gender == "she" else "she"
        friend_gender = friend.gender or (other if g.chance(0.75) else gender)
        hero_name = wish.name or (self.name(gender) if g.chance(0.6) else "")
        friend_name = self.name(friend_gender) if g.chance(0.25) else ""
        if friend_name == hero_name:
            friend_name = ""
        he, him, his, himself = PRONOUNS[gender]
        fhe, fhim, fhis, _ = PRONOUNS[friend_gender]
        look = g.pick(thing.looks)
        slots = {
            "h": hero_name or f"the {hero.noun}", "he": he, "him": him, "his": his, "himself": himself,
            "hero": self._introduction(hero, wish.trait, hero_name), "hero_name": hero_name,
            "f": friend_name or f"the {friend.noun}", "fhe": fhe, "fhim": fhim, "fhis": fhis,
            "friend": self._introduction(friend, "", friend_name), "friend_name": friend_name,
            "thing": thing.noun, "a_thing": with_article(thing.noun),
            "nice_thing": with_article(f"{look} {thing.noun}"),
            "look": look, "did": g.pick(thing.did), "use": thing.use,
            "place": place.noun, "at": place.at, "to": place.to, "spot": g.pick(place.spots),
            "feeling": g.pick(words.FEELINGS),
        }
        if wish.extra:
            slots["an_extra"] = with_article(f"{g.pick(wish.extra.looks)} {wish.extra.noun}")
        return slots

    def _sentences(self, plot, wish, slots):
        g = self.grammar
        yield g.expand(g.pick(plots.HOME_OPENINGS if plot.lives_at_place else plots.OPEN_OPENINGS), slots)
        for beat in plot.beats:
            if beat[0] == "~":
                if wish.length == "short" or g.chance(0.4):
                    continue
                beat = beat[1:]
            yield g.expand(beat, slots)
        if wish.extra:
            yield g.expand(g.pick(plots.EXTRAS), slots)
        if wish.length != "short" or g.chance(0.3):
            yield g.expand(g.pick(plots.CLOSINGS), slots)
        if wish.moral:
            yield words.MORALS[wish.moral]
        elif plot.morals and g.chance(0.12):
            yield words.MORALS[g.pick(plot.morals)]
        if g.chance(0.12):
            yield "The end."

    def _questions(self, plot, wish, slots, hero, friend, place):
        g = self.grammar
        pairs = list(plot.questions)
        if slots["hero_name"]:
            pairs.append((f"What was the {hero.noun}'s name?", "$His name was $h." if slots["his"] == "his"
                          else "Her name was $h."))
            pairs.append(("Who was $h?", f"$H was {with_article(hero.noun)}."))
        if slots["friend_name"]:
            pairs.append(("Who was $f?", f"$F was {with_article(friend.noun)}."))
        if plot.lives_at_place:
            pairs.append(("Where did $h live?", "$H lived $at."))
        pairs.append(("Who was the story about?", "It was about $h and $f."))
        return [(g.expand(q, slots), g.expand(a, slots)) for q, a in pairs]


REQUESTS = (
    "(Tell|Write) me a$size story about $nouns.",
    "(Please |)(tell|write|tell me|write me) a$size story (about|with) $nouns.",
    "(Can|Could) you tell (me |us |)a$size story about $nouns?",
    "I (want|would like|would love) (to hear |)a$size story about $nouns.",
    "(A|One)$size story about $nouns, please.",
    "(Make up|Invent) a$size (story|tale) about $nouns.",
    "(Tell|Give) me a$size (tale|bedtime story) (about|with) $nouns.",
    "Do you know a$size story about $nouns?",
    "Write a$size story with $nouns in it.",
    "Story about $nouns",
)

OPEN_REQUESTS = (
    "(Tell|Write) me a$size story(|, please).",
    "(Please |)tell me a$size (story|tale|bedtime story).",
    "(Can|Could|Will) you tell me a$size story?",
    "I (want|would like) to hear a$size story.",
    "(Make up|Invent) a$size story.",
    "Once upon a time",
)


def request_text(grammar, wish):
    """The words in which a reader asks for this story."""
    size = {"normal": grammar.pick(("", "", "", " nice", " little")), "short": grammar.pick((" short", " very short")),
            "sentence": " one-sentence"}[wish.length]
    moral = ""
    if wish.moral:
        moral = grammar.pick((f" It should be about {wish.moral}.", f" The story should teach {wish.moral}."))
    tail = ""
    if wish.length == "sentence" and grammar.chance(0.5):
        size, tail = "", " " + grammar.pick(("Use only one sentence.", "In one sentence, please."))
    nouns = []
    if wish.hero:
        trait = f"{wish.trait} " if wish.trait else ""
        name = f" {grammar.pick(('named', 'called'))} {wish.name}" if wish.name else ""
        nouns.append(with_article(f"{trait}{wish.hero.noun}") + name)
    nouns += [with_article(x.noun) for x in (wish.friend, wish.thing, wish.extra) if x]
    if grammar.chance(0.25):
        grammar.rng.shuffle(nouns)
    where = ""
    if wish.place:
        if nouns and grammar.chance(0.6):
            where = " " + wish.place.at
        else:
            unique = wish.place.noun in ("moon", "sea") or grammar.chance(0.4)
            nouns.append(f"the {wish.place.noun}" if unique else with_article(wish.place.noun))
    if not nouns:
        options = [x for x in OPEN_REQUESTS if "Once" not in x or (wish.length == "normal" and not wish.moral)]
        return grammar.expand(grammar.pick(options), {"size": size}) + moral + tail
    if grammar.chance(0.1):
        return f"{join_words(nouns)}{where}" if not (moral or tail or size) else \
            f"A{size} story: {join_words(nouns)}{where}.{moral}{tail}"
    text = grammar.expand(grammar.pick(REQUESTS), {"size": size, "nouns": join_words(nouns) + where})
    if (moral or tail) and text[-1] not in ".?!":
        text += "."
    return text + moral + tail
