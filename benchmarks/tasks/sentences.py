"""Reviews in an invented language with a grammar: two clauses about things, joined, one of which is the point.

    clause       THING [ADVERB] (is | is NOT) OPINION         or as the style says
    sentence     QUESTION clause JOINT clause END, padded to the length that models read

The point of `A but B` is B, of `A though B` it is A, of `A and B` again A; NOT turns an opinion round; an adverb means
nothing. The first word asks one of several questions, most of them for a topic and an opinion: 4 x 2 answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial

import numpy as np

from .task import Array, Domain, Draw, Split, Task, balanced

LENGTH = 16
PADDING, END = 0, 1
IS, NOT, BUT, THOUGH, AND, ALSO, WHILE = range(2, 9)
ASKS = 9
"""The first of the tokens that ask a question."""
_TOPICS, _WORDS = 4, 8
THINGS = 16
"""The first thing; topics follow each other, each with its words; then those that the pre-training never says."""
NEW_THINGS = THINGS + _TOPICS * _WORDS
GOOD, BAD = NEW_THINGS + _TOPICS * _WORDS, NEW_THINGS + _TOPICS * _WORDS + _WORDS
NEW_GOOD, NEW_BAD = BAD + _WORDS, BAD + 2 * _WORDS
ADVERBS = NEW_BAD + _WORDS
VOCABULARY = 128
ANSWER, ANSWERS = 120, 8
"""The first of the tokens that name classes, for models that answer by the next word."""
assert ADVERBS + _WORDS <= ANSWER and ANSWER + ANSWERS <= VOCABULARY


@dataclass(frozen=True)
class Style:
    """How people write.

    new_words   share of things and opinions that are words the pre-training never says
    verb_first  whether a clause is `is [NOT] OPINION THING [ADVERB]`
    fillers     adverbs put in anywhere, at most
    slips       share of words that are replaced by any other
    joints      words that join clauses, of which the model knows some
    """

    new_words: float = 0.0
    verb_first: bool = False
    fillers: int = 0
    slips: float = 0.0
    joints: tuple[int, ...] = (BUT, THOUGH, AND)


@dataclass(frozen=True, eq=False)
class Meaning:
    """What sentences mean; arrays [N] or [N, 2], the clauses in the order in which they are said."""

    topics: Array
    good: Array
    turned: Array
    joint: Array

    @property
    def point(self) -> Array:
        """Which clause is the point."""
        return np.isin(self.joint, (BUT, WHILE)).astype(int)

    @property
    def approves(self) -> Array:
        """Of each clause whether it says something good, [N, 2]."""
        return self.good ^ self.turned


class Question(Enum):
    """What is asked of a sentence. Its first word says which question it is; the pre-training knows the first three."""

    FIRST = "the topic of the first clause, and whether it praises"
    SECOND = "the topic of the second clause, and whether it praises"
    POINT = "the topic of the clause that is the point, and whether it praises"
    ASIDE = "the topic of the clause that is not the point, and whether it praises"
    BOTH = "what each clause says: praise or blame, in their order"

    @property
    def word(self) -> int:
        """The token that asks."""
        return ASKS + tuple(Question).index(self)

    @property
    def classes(self) -> int:
        """How many answers there are."""
        return 4 if self is Question.BOTH else 8

    def label(self, meaning: Meaning) -> Array:
        """The answers, i64[N]."""
        topics, approves = meaning.topics, meaning.approves.astype(int)
        if self is Question.BOTH:
            return np.asarray(approves[:, 0] * 2 + approves[:, 1])
        rows, point = np.arange(len(topics)), meaning.point
        side = {Question.FIRST: 0 * point, Question.SECOND: 0 * point + 1, Question.POINT: point}.get(self, 1 - point)
        return np.asarray(topics[rows, side] * 2 + approves[rows, side])


PRETRAINED = (Question.FIRST, Question.SECOND, Question.POINT)


def _meanings(count: int, style: Style, chance: np.random.Generator) -> Meaning:
    topics = chance.integers(0, _TOPICS, (count, 2))
    topics[:, 1] = np.where(chance.random(count) < 0.3, topics[:, 0], topics[:, 1])
    good, turned = chance.random((count, 2)) < 0.5, chance.random((count, 2)) < 0.4
    return Meaning(topics, good, turned, chance.choice(style.joints, count))


def _words(meaning: Meaning, style: Style, chance: np.random.Generator) -> list[list[int]]:
    """The sentences, not padded."""
    shape = meaning.topics.shape
    new = chance.random((2, *shape)) < style.new_words
    things = np.where(new[0], NEW_THINGS, THINGS) + meaning.topics * _WORDS + chance.integers(0, _WORDS, shape)
    good, bad = np.where(new[1], NEW_GOOD, GOOD), np.where(new[1], NEW_BAD, BAD)
    opinions = np.where(meaning.good, good, bad) + chance.integers(0, _WORDS, shape)
    adverbs = np.where(chance.random(shape) < 0.5, ADVERBS + chance.integers(0, _WORDS, shape), PADDING)
    written = []
    for at in range(shape[0]):
        clauses = []
        for side in (0, 1):
            middle = [IS, NOT] if meaning.turned[at, side] else [IS]
            adverb = [adverbs[at, side]] if adverbs[at, side] else []
            thing, opinion = [things[at, side]], [opinions[at, side]]
            clauses.append(middle + opinion + thing + adverb if style.verb_first else thing + adverb + middle + opinion)
        written.append([*clauses[0], int(meaning.joint[at]), *clauses[1]])
    return written


def _spoilt(words: list[int], style: Style, chance: np.random.Generator) -> list[int]:
    """With adverbs put in and words replaced, as the style says; as many words as there is room for."""
    for _ in range(chance.integers(0, style.fillers + 1) if style.fillers else 0):
        words.insert(int(chance.integers(0, len(words) + 1)), int(ADVERBS + chance.integers(0, _WORDS)))
    if style.slips:
        words = [int(chance.integers(THINGS, ANSWER)) if chance.random() < style.slips else word for word in words]
    return words[: LENGTH - 2]


def reviews(count: int, chance: np.random.Generator, ask: Question, style: Style) -> Split:
    """`input_ids` i64[N, length] and the answers i64[N], balanced; no sentence is there twice."""
    wanted = balanced(count, ask.classes, chance)
    stock: list[list[Array]] = [[] for _ in range(ask.classes)]
    need, seen = np.bincount(wanted, minlength=ask.classes), set[bytes]()
    while any(len(found) < least for found, least in zip(stock, need, strict=True)):
        meaning = _meanings(count, style, chance)
        for words, label in zip(_words(meaning, style, chance), ask.label(meaning), strict=True):
            row = np.full(LENGTH, PADDING)
            text = [ask.word, *_spoilt(words, style, chance), END]
            row[: len(text)] = text
            if len(stock[label]) < need[label] and row.tobytes() not in seen:
                seen.add(row.tobytes())
                stock[label].append(row)
    rows = np.array([stock[label].pop() for label in wanted])
    return Split({"input_ids": rows}, wanted)


def _asked(count: int, chance: np.random.Generator) -> Split:
    """Each of the questions of the pre-training as often as any other, in random order."""
    share = -(-count // len(PRETRAINED))
    splits = [reviews(share, chance, ask, Style()) for ask in PRETRAINED]
    order = chance.permutation(share * len(splits))[:count]
    ids = np.concatenate([split.inputs["input_ids"] for split in splits])
    return Split({"input_ids": ids[order]}, np.concatenate([split.labels for split in splits])[order])


DOMAIN = Domain(
    "sentences",
    "Reviews of two clauses in an invented language, with one of three questions about them, 8 answers each.",
    _asked,
    8,
)

_TABLE: tuple[tuple[str, str, int, Question, Style], ...] = (
    (
        "unknown-words", "a known question; most things and opinions are words that the pre-training never says", 200,
        Question.POINT, Style(new_words=0.7),
    ),
    (
        "other-order", "a known question; clauses begin with the verb, two joints are new", 300,
        Question.POINT, Style(verb_first=True, joints=(BUT, THOUGH, AND, WHILE, ALSO)),
    ),
    (
        "careless", "a known question; words put in anywhere, and every thirtieth word is wrong", 600,
        Question.POINT, Style(fillers=3, slips=1 / 30),
    ),
    ("asides", "a new question: for the clause that is not the point", 200, Question.ASIDE, Style(fillers=1)),
    ("both-sides", "a new question: what each clause says, praise or blame", 200, Question.BOTH, Style(fillers=2)),
)  # fmt: skip


def _task(name: str, shift: str, samples: int, ask: Question, style: Style) -> Task:
    drawing: Draw = partial(reviews, ask=ask, style=style)
    return Task(name, DOMAIN.name, shift, ask.classes, samples, drawing, keeps_labels=ask in PRETRAINED)


TASKS = tuple(_task(*row) for row in _TABLE)
