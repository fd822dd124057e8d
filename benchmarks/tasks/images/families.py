"""The families of images: what models are pre-trained on, and tasks that differ from it in one thing each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

import numpy as np

from ..task import Array, Domain, Draw, Metric, Split, Task, balanced
from . import outlines, surfaces
from .scene import Look, Subjects, draw

KNOWN = outlines.numbers(
    "disc", "square", "triangle", "star", "cross", "ring", "crescent", "heart", "bar", "arrow", "polygon5", "flower4"
)
"""The shapes of the pre-training."""
NEW = outlines.numbers("half", "hourglass", "corner", "tee", "mouth", "ess", "aitch", "gear", "ellipse", "star3")
FINE = outlines.numbers("star4", "star", "star6", "star7", "flower3", "flower4", "flower5", "flower6")
POINTED = outlines.numbers("arrow", "heart", "tee", "half")
_PATTERNS = ("plain", "stripes", "checks", "dots", "rings")

ORDINARY = Look(size=(0.55, 0.85), others=(0, 1), company=KNOWN)
"""How the images of the pre-training look."""
_DRESSED = replace(
    ORDINARY,
    fills=surfaces.numbers("plain", "shaded"),
    backgrounds=surfaces.numbers("stripes", "checks", "dots"),
)


class Concept(Enum):
    """What the label of an image names."""

    SHAPE = "the shape of the figure"
    SURFACE = "the pattern on the figure"
    TURN = "which way the figure points"
    COPIES = "how many figures there are, less one"


@dataclass(frozen=True)
class Family:
    """Images and their labels: what they look like, what the label names, and the shapes or surfaces that it may be."""

    look: Look
    concept: Concept
    shapes: tuple[int, ...]
    patterns: tuple[int, ...] = ()
    classes: int = 0

    @property
    def label_count(self) -> int:
        """How many classes there are."""
        own = {Concept.SHAPE: len(self.shapes), Concept.SURFACE: len(self.patterns)}
        return own.get(self.concept, self.classes)

    def subjects(self, labels: Array, chance: np.random.Generator) -> Subjects:
        """What is in the image of each label."""
        if self.concept is Concept.SHAPE:
            return Subjects.of(np.asarray(self.shapes)[labels])
        shapes = chance.choice(self.shapes, len(labels))
        if self.concept is Concept.SURFACE:
            return Subjects.of(shapes, surface=np.asarray(self.patterns)[labels])
        if self.concept is Concept.COPIES:
            return Subjects.of(shapes, copies=labels + 1)
        step = 2 * np.pi / self.classes
        return Subjects.of(shapes, turn=step * (labels + chance.uniform(-0.35, 0.35, len(labels))))


def normalised(images: Array) -> Array:
    """From 0 to 1 -> mean about 0, spread about 1."""
    return (images - np.float32(0.5)) * np.float32(4)


def classified(count: int, chance: np.random.Generator, family: Family) -> Split:
    """Images `pixel_values` f32[N, 3, side, side] and their classes i64[N]."""
    labels = balanced(count, family.label_count, chance)
    images, _ = draw(family.look, family.subjects(labels, chance), chance)
    return Split({"pixel_values": normalised(images)}, labels)


def segmented(count: int, chance: np.random.Generator, family: Family) -> Split:
    """Images, and for each pixel i64[N, side, side] the class of the figure there, counted from 1; 0 is background."""
    labels = balanced(count, family.label_count, chance)
    images, masks = draw(family.look, family.subjects(labels, chance), chance)
    return Split({"pixel_values": normalised(images)}, np.where(masks, labels[:, None, None] + 1, 0))


_BASE = Family(ORDINARY, Concept.SHAPE, KNOWN)

DOMAIN = Domain(
    "images",
    "Figures of 12 shapes, turned any way, plain or shaded, before a plain or shaded background.",
    partial(classified, family=_BASE),
    len(KNOWN),
)

_SEEN = KNOWN[:7]
SEGMENTS = Domain(
    "segments",
    "The images of the first 7 shapes; for each pixel the shape that is seen there, or the background.",
    partial(segmented, family=replace(_BASE, shapes=_SEEN)),
    len(_SEEN) + 1,
)

_WIDE = outlines.numbers("disc", "square", "cross", "heart", "polygon5", "flower4")
_TABLE: tuple[tuple[str, str, int, Family], ...] = (
    ("new-shapes", "10 shapes that the pre-training never showed", 700, replace(_BASE, shapes=NEW)),
    ("fine-shapes", "stars and flowers of different numbers of points or petals", 1000, replace(_BASE, shapes=FINE)),
    (
        "patterns", "the label is one of 5 patterns on the figure, whose shape means nothing", 1000,
        Family(replace(ORDINARY, size=(0.75, 0.95)), Concept.SURFACE, _WIDE, surfaces.numbers(*_PATTERNS)),
    ),
    (
        "dressed", "the known shapes before stripes, checks and dots", 1000,
        replace(_BASE, look=_DRESSED),
    ),
    (
        "night", "the known shapes in little coloured light from one side, with the noise of a camera", 1000,
        replace(_BASE, look=replace(ORDINARY, brightness=(0.2, 0.4), slope=0.7, cast=0.4, noise=(0.01, 0.03))),
    ),
    (
        "spoilt", "the known shapes blurred, coarse, noisy, with dead pixels", 1000,
        replace(_BASE, look=replace(ORDINARY, blur=(0, 1), coarse=0.3, noise=(0.03, 0.12), dead=(0.0, 0.05))),
    ),
    (
        "sketches", "the known shapes as thin lines, not filled", 400,
        replace(_BASE, look=replace(ORDINARY, line=(0.03, 0.07), fills=surfaces.numbers("plain"))),
    ),
    (
        "far-off", "the known shapes smaller, anywhere", 1000,
        replace(_BASE, look=replace(ORDINARY, size=(0.42, 0.58))),
    ),
    (
        "directions", "the label is which of 6 ways the figure points, whose shape means nothing", 1000,
        Family(ORDINARY, Concept.TURN, POINTED, classes=6),
    ),
    (
        "counts", "the label is how many figures there are, one to six", 500,
        Family(replace(ORDINARY, size=(0.18, 0.28), others=(0, 0)), Concept.COPIES, KNOWN, classes=6),
    ),
)  # fmt: skip


def _task(name: str, shift: str, samples: int, family: Family) -> Task:
    drawing: Draw = partial(classified, family=family)
    same = family.concept is Concept.SHAPE and family.shapes == KNOWN
    return Task(name, DOMAIN.name, shift, family.label_count, samples, drawing, keeps_labels=same)


def _segmenting(name: str, shift: str, samples: int, family: Family) -> Task:
    drawing: Draw = partial(segmented, family=family)
    metric, same = Metric.CLASS_ACCURACY, family.shapes == _SEEN
    return Task(name, SEGMENTS.name, shift, family.label_count + 1, samples, drawing, metric=metric, keeps_labels=same)


TASKS = (
    *(_task(*row) for row in _TABLE),
    _segmenting("segment-new", "7 shapes that the pre-training never showed", 300, replace(_BASE, shapes=NEW[:7])),
    _segmenting(
        "segment-dressed", "the known shapes before stripes, checks and dots", 300,
        replace(_BASE, shapes=_SEEN, look=_DRESSED),
    ),
)  # fmt: skip
