"""Whole documents: chats of one or more turns, and plain stories without any markup."""

from dataclasses import dataclass

import vocabulary as words
from grammar import Grammar, capital
from questions import Asker
from stories import StoryTeller, request_text

SELF = "I am Tales, a small model that tells stories and answers simple questions."
SMALL_TALK = (
    ("(Hello|Hi|Hey|Good morning|Good evening|Hello there|Hi there)(!|.|)", "Hello! Would you like to hear a story?"),
    ("(Who|What) are you?", SELF),
    ("What is your name?", "My name is Tales."),
    ("What can you do?", "I can tell stories about many things, and I can answer simple questions."),
    ("How are you(| today)?", "I am fine, thank you. How are you?"),
    ("(Thanks|Thank you|Thank you very much|Many thanks|Thanks a lot)(!|.|)", "You are welcome!"),
    ("(Bye|Goodbye|Good night|See you later|Bye bye)(!|.|)", "Goodbye! Come back soon."),
    ("Are you (a person|human|alive)?", "No, I am a small computer model."),
    ("Are you (a robot|a computer|a program)?", "Yes, I am a small computer model."),
    ("Do you like (stories|animals|music|me|people)?", "Yes, I like them very much."),
    ("How old are you?", "I am very young."),
    ("(That was|What) a (nice|good|lovely|great) story(!|.)", "Thank you! I am glad that you liked it."),
    ("I am (sad|tired|bored|lonely).", "I am sorry to hear that. A story may help."),
    ("I am (happy|fine|well|great)(!|.)", "That is good to hear!"),
    ("(Tell me a joke|Do you know a joke|Make me laugh)(.|?)",
     "Why did the bee go to school? It wanted to learn to spell!"),
    ("(ok|okay|OK|Good|Great|Nice|Cool)(!|.|)", "Good! What shall we do next?"),
    ("Can you help me?", "Yes, I will try. What do you need?"),
)
SMALL_TALK_FIX = {"Do you like me?": "Yes, I like you very much.", "Do you like music?": "Yes, I like it very much."}

PLAIN_SYSTEM = (
    "You are a helpful assistant.", "You are Tales, a friendly storyteller.", "You tell stories to children.",
    "Be kind and brief.", "Use simple words.", "You are a small language model.", "Answer the user.",
    "You are a friendly teacher.",
)
END_WORDS = "Ahoy Hooray Meow Cheers Indeed Bravo Yippee Amen Wow Hello Peace Sunshine".split()

AGAIN = (
    "(Another one|One more|Again|Another story|Tell me another one|One more story|Tell me another story)(, "
    "please|)(.|!)",
    "(Can you tell me|I want|I would like) another (one|story)(?|.)",
)


@dataclass
class Document:
    kind: str
    messages: list  # pairs of role ("user", "model") and text; a plain text has the single role "text"
    check: object = None  # what evaluation compares: a Question, a Wish, or the expected last answer


def rough(grammar, text):
    """The way people type: lower case, no full stop, now and then a slip of the finger."""
    r = grammar.rng.random()
    if r < 0.13:
        text = text.lower()
    if 0.08 < r < 0.22:
        text = text.rstrip(".?!") or text
    if 0.22 < r < 0.25:
        pieces = text.split(" ")
        # The first words carry the phrasing; nouns stand at the end and must stay readable.
        i = int(grammar.rng.random() * min(3, len(pieces)))
        if len(pieces[i]) >= 4 and pieces[i].isalpha():
            j = 1 + int(grammar.rng.random() * (len(pieces[i]) - 2))
            pieces[i] = pieces[i][:j] + pieces[i][j + 1] + pieces[i][j] + pieces[i][j + 2:]
            text = " ".join(pieces)
    return text


class Writer:
    """Draws documents of every kind from one random stream."""

    def __init__(self, rng, held_out=False):
        self.grammar = Grammar(rng)
        self.stories = StoryTeller(self.grammar, held_out)
        self.asker = Asker(self.grammar, held_out)

    def document(self, kind=None):
        kind = kind or self.grammar.pick(WEIGHTED_KINDS)
        document = KINDS[kind](self)
        if document.messages[0][0] == "user" and kind != "system" and self.grammar.chance(0.06):
            role, text = document.messages[0]
            document.messages[0] = (role, f"{self.grammar.pick(PLAIN_SYSTEM)}\n\n{text}")
        return document

    # --- building blocks -------------------------------------------------------------------------------------------

    def _question_turns(self, question):
        text = question.text if question.keep_exact else rough(self.grammar, question.text)
        return [("user", text), ("model", question.answer)]

    def _small_talk_turns(self):
        text, answer = self.grammar.pick(SMALL_TALK)
        text = self.grammar.expand(text)
        answer = SMALL_TALK_FIX.get(text, answer)
        return [("user", rough(self.grammar, text)), ("model", answer)]

    def _story(self, wish=None):
        wish = wish or self.stories.wish()
        story = self.stories.tell(wish)
        return story, [("user", rough(self.grammar, request_text(self.grammar, wish))), ("model", story.text)]

    # --- kinds of documents ------------------------------------------------------------------------------------------

    def story(self):
        story, turns = self._story()
        return Document("story", turns, story.wish)

    def plain_story(self):
        story = self.stories.tell(self.stories.wish())
        return Document("plain story", [("text", story.text)])

    def question(self):
        question = self.asker.ask()
        return Document("question", self._question_turns(question), question)

    def chat(self):
        """Several unrelated questions and small talk in one conversation."""
        turns = []
        for _ in range(2 + int(self.grammar.rng.random() * 5)):
            turns += self._small_talk_turns() if self.grammar.chance(0.25) else self._question_turns(self.asker.ask())
        return Document("chat", turns)

    def story_questions(self):
        """A story, then questions whose answers stand in it."""
        wish = self.stories.wish()
        wish.length = "short" if wish.length == "short" else "normal"
        story, turns = self._story(wish)
        count = 1 + int(self.grammar.rng.random() * 4)
        for text, answer in self.grammar.rng.sample(story.questions, min(count, len(story.questions))):
            turns += [("user", rough(self.grammar, text)), ("model", answer)]
        if self.grammar.chance(0.2):
            turns += self._small_talk_turns()
        return Document("story questions", turns, turns[-1][1])

    def reading(self):
        """The reader brings the story; the model answers about it."""
        wish = self.stories.wish()
        wish.length = "short"
        story = self.stories.tell(wish)
        chosen = self.grammar.rng.sample(story.questions, min(3, len(story.questions)))
        (first, answer), *rest = chosen
        lead = self.grammar.pick(("Read this story. ", "Here is a story: ", ""))
        turns = [("user", f"{lead}{story.text}\n{first}"), ("model", answer)]
        for text, answer in rest[:int(self.grammar.rng.random() * 3)]:
            turns += [("user", rough(self.grammar, text)), ("model", answer)]
        return Document("reading", turns, turns[-1][1])

    def more_stories(self):
        """A story and then another one, about the same nouns told anew."""
        wish = self.stories.wish()
        wish.length = "short"
        story, turns = self._story(wish)
        again = self.stories.tell(wish)
        turns += [("user", rough(self.grammar, self.grammar.expand(self.grammar.pick(AGAIN)))), ("model", again.text)]
        return Document("more stories", turns)

    def name_memory(self):
        g = self.grammar
        name = self.stories.name(g.pick(("she", "he")))
        extra = self._memory(g)
        greeting = g.expand("(My name is|I am called|Hello, my name is|Hi, I am) $name.", {"name": name})
        turns = [("user", rough(g, greeting)), ("model", f"Hello, {name}! Nice to meet you.")]
        if extra:
            turns += [("user", extra[0]), ("model", "I will remember that.")]
        for _ in range(int(g.rng.random() * 4)):
            turns += self._small_talk_turns() if g.chance(0.3) else self._question_turns(self.asker.ask())
        asked = ("What is my name?", "Who am I?", "Do you remember my name?", "Do you know my name?")
        ends = [(asked, f"Your name is {name}.")]
        if extra:
            ends.append(((extra[1],), extra[2]))
        g.rng.shuffle(ends)
        for text, answer in ends:
            turns += [("user", rough(g, g.pick(text))), ("model", answer)]
        return Document("memory", turns, turns[-1][1])

    def _memory(self, g):
        """A thing to remember: what is said, the question and its answer."""
        kind = int(g.rng.random() * 6)
        if kind == 0:
            colour = g.pick("red blue green yellow pink orange purple white black brown".split())
            is_it = f"favourite colour is {colour}."
            return f"My {is_it}", "What is my favourite colour?", f"Your {is_it}"
        if kind == 1:
            animal, pet = g.pick(words.ANIMALS).noun, self.stories.name(g.pick(("she", "he")))
            said = f"I have a pet {animal} called {pet}."
            return said, f"What is my {animal} called?", f"Your {animal} is called {pet}."
        if kind == 2:
            age = 3 + int(g.rng.random() * 80)
            return f"I am {age} years old.", "How old am I?", f"You are {age} years old."
        if kind == 3:
            thing = g.pick(words.SMALL_THINGS).noun
            place = g.pick(words.PLACES)
            return f"My {thing} is {place.at}.", f"Where is my {thing}?", f"Your {thing} is {place.at}."
        return None

    def small_talk(self):
        turns = []
        for _ in range(1 + int(self.grammar.rng.random() * 3)):
            turns += self._small_talk_turns()
        return Document("small talk", turns)

    def system(self):
        """A system message that changes the answers."""
        g = self.grammar
        questions = [self.asker.ask() for _ in range(1 + int(g.rng.random() * 3))]
        style = g.pick(("word", "end", "name"))
        if style == "word":
            system = g.pick(("Answer with as few words as possible.", "Give only the answer.", "Answer with one word."))
            answers = [capital(q.brief) if not q.keep_exact else q.brief for q in questions]
        elif style == "end":
            word = g.pick(END_WORDS)
            system = g.expand("(End every answer with the word $word.|Always say $word at the end.|Finish each answer "
                              "with $word.)", {"word": word})
            answers = [f"{q.answer} {word}!" for q in questions]
        else:
            name = self.stories.name("she")
            system = g.expand("(Your name is|You are called) $name.", {"name": name})
            text = g.pick(("What is your name?", "Who are you?"))
            answer = f"My name is {name}." if "name" in text else f"I am {name}, a small model that tells stories."
            turns = [("user", f"{system}\n\n{text}"), ("model", answer)]
            return Document("system", turns + [t for q in questions[1:] for t in self._question_turns(q)])
        turns = []
        for question, answer in zip(questions, answers):
            turns += [("user", question.text), ("model", answer)]
        turns[0] = ("user", f"{system}\n\n{turns[0][1]}")
        return Document("system", turns)


KINDS = {
    "story": Writer.story, "plain story": Writer.plain_story, "question": Writer.question, "chat": Writer.chat,
    "story questions": Writer.story_questions, "reading": Writer.reading, "more stories": Writer.more_stories,
    "memory": Writer.name_memory, "small talk": Writer.small_talk, "system": Writer.system,
}
# Weights count documents; a question is a tenth of a story in tokens.
WEIGHTS = {"story": 20, "plain story": 7, "question": 34, "chat": 14, "story questions": 12, "reading": 7,
           "more stories": 3,
           "memory": 8, "small talk": 4, "system": 5}
WEIGHTED_KINDS = [kind for kind, weight in WEIGHTS.items() for _ in range(weight)]
