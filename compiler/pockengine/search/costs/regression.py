"""From what segments took in some schemes to what they will take in others: a Gaussian process.

What a segment takes is told by what is trained in it and in each of those beside it. Mostly each of these parts counts
by itself, so their covariances are added up (Duvenaud, Nickisch and Rasmussen, "Additive Gaussian processes", 2011):
every part needs to have been seen, but not each in each company. A product of all parts stands for what only their
company tells. Segments that compute alike learn from each other's observations, in parts of their sizes: those of equal
shapes as much as from their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .segments import Bools, Floats, Ints, Segments

REACH, LINEAR = 3.0, 0.3
"""How far the covariance of a part reaches, and the variance of what is linear in it."""

WHOLE, WIDE = 0.3, 2.0
"""Variance of what only the company of all parts tells, and how far it reaches."""

ALIKE = 0.9
"""How much segments of one class but of other shapes tell about each other."""

NOISE = 3e-3
"""The part of the variance that is no function of what a segment sees: above all, of what the order of the whole step
decides."""

ENOUGH = 5
"""Observations of a kind after which it is told nothing beyond them."""

MOST = 1024
"""Observations that one class learns from: the latest schemes'."""

KEPT = 1024
"""Answers about one segment that are kept."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Figures of segments that were observed together.

    figures  [schemes, segments, figures]
    counts   [schemes, segments]: whether a scheme says something of a segment
    scales   [segments, figures]: that of which figures are parts, above 0
    kept     [figures]: whether nothing is told beyond what was observed of the same kind; else, of the same class"""

    figures: Floats
    counts: Bools
    scales: Floats
    kept: Bools


@dataclass(frozen=True, eq=False)
class Points:
    """What segments of one class saw, each once.

    parts   of each part of the features: where it is, its different values [values, features], and which of these each
            point has [points]
    owners  [points]: the kind of the segment that saw it"""

    parts: tuple[tuple[slice, Floats, Ints], ...]
    owners: Ints

    @classmethod
    def of(cls, features: Floats, owners: Ints, parts: Sequence[slice]) -> Points:
        """Of [points, features]."""
        return cls(tuple((part, *_different(features[:, part])) for part in parts), owners)

    def similar(self, features: Floats, kinds: Ints) -> Floats:
        """[n, points]: how much each point tells about segments of these kinds that see `features`."""
        total = np.zeros((len(features), len(self.owners)))
        whole = np.full_like(total, WHOLE)
        for part, values, which in self.parts:
            seen = features[:, part]
            apart = np.abs(seen[:, None] - values).sum(axis=2)
            total += (np.exp(-apart / REACH) + LINEAR * seen @ values.T)[:, which]
            whole *= np.exp(-apart / WIDE)[:, which]
        same: Floats = np.where(kinds[:, None] == self.owners, 1.0, ALIKE)
        return same * (total / len(self.parts) + whole)


@dataclass(frozen=True, eq=False)
class Told:
    """What is known of one sample's figures.

    weights  [points, figures]
    middle   [figures]
    span     [2, members, figures]: the least and the most that is told"""

    weights: Floats
    middle: Floats
    span: Floats


@dataclass(frozen=True, eq=False)
class Learned:
    """What is known of one class.

    members  its segments
    kinds    of these
    told     of each sample"""

    members: Ints
    kinds: Ints
    points: Points
    told: tuple[Told, ...]

    def of(self, rows: Ints, features: Floats) -> list[Floats]:
        """[rows, figures] of each sample, of some members that see [rows, features]."""
        similar = self.points.similar(features, self.kinds[rows])
        return [np.clip(similar @ one.weights + one.middle, *one.span[:, rows]) for one in self.told]


@dataclass(frozen=True, eq=False)
class Regression:
    """classes  of segments
    scales   of each sample"""

    classes: tuple[Learned, ...]
    scales: tuple[Floats, ...]

    @cached_property
    def _known(self) -> list[dict[bytes, Floats]]:
        """Of each segment what it was asked for last: choices that a search compares have most of what segments see in
        common."""
        return [{} for _ in self.scales[0]]

    @cached_property
    def _ends(self) -> Ints:
        """Where one sample's figures end and the next one's begin."""
        return np.cumsum([scales.shape[1] for scales in self.scales])[:-1]

    @classmethod
    def fit(cls, segments: Segments, features: Floats, samples: Sequence[Sample]) -> Regression:
        """features  [schemes, segments, features]"""
        kinds, classes = np.asarray(segments.kinds), np.asarray(segments.classes)
        learned = []
        for one in np.unique(classes):
            members = np.flatnonzero(classes == one)
            learned.append(_learned(members, kinds[members], features[:, members], segments.parts[members[0]], samples))
        return cls(tuple(learned), tuple(sample.scales for sample in samples))

    def of(self, features: Floats) -> list[Floats]:
        """[segments, figures] of each sample, of [segments, features]."""
        keys = [row.tobytes() for row in features]
        missing = np.array([key not in known for key, known in zip(keys, self._known, strict=True)])
        if missing.any():
            self._ask(features, keys, missing)
        figures = np.array([known[key] for key, known in zip(keys, self._known, strict=True)])
        return np.split(figures, self._ends, axis=1)

    def _ask(self, features: Floats, keys: Sequence[bytes], missing: Bools) -> None:
        """Let these segments' figures be known."""
        for one in self.classes:
            rows = np.flatnonzero(missing[one.members])
            if not len(rows):
                continue
            members = one.members[rows]
            told = one.of(rows, features[members])
            scaled = [figures * scales[members] for figures, scales in zip(told, self.scales, strict=True)]
            for member, figures in zip(members, np.concatenate(scaled, axis=1), strict=True):
                if len(self._known[member]) >= KEPT:
                    self._known[member].clear()
                self._known[member][keys[member]] = figures


def _learned(
    members: Ints, kinds: Ints, features: Floats, parts: Sequence[slice], samples: Sequence[Sample]
) -> Learned:
    """What samples tell of the segments of one class, which saw [schemes, members, features]."""
    owned = np.broadcast_to(kinds[:, None], (*features.shape[:2], 1)).astype(np.float64)
    seen: Floats = np.concatenate((owned, features), axis=2)
    rows, which = _different(seen.reshape(-1, seen.shape[2])[-MOST:])
    owners = rows[:, 0].astype(np.int64)
    points = Points.of(rows[:, 1:], owners, parts)
    similar = points.similar(rows[:, 1:], owners)
    told = []
    for sample in samples:
        figures = (sample.figures[:, members] / sample.scales[members]).reshape(len(seen) * len(members), -1)[-MOST:]
        counts = sample.counts[:, members].reshape(-1)[-MOST:]
        means, known = _means(figures[counts], which[counts], len(rows))
        told.append(_told(similar, means, known, _span(means[known], owners[known], kinds, sample.kept)))
    return Learned(members, kinds, points, tuple(told))


def _told(similar: Floats, figures: Floats, known: Bools, span: Floats) -> Told:
    """What [points, figures] tell where they are known."""
    weights, middle = np.zeros_like(figures), np.zeros(figures.shape[1])
    if known.any():
        middle = figures[known].mean(axis=0)
        among = similar[np.ix_(known, known)]
        noise = NOISE * float(np.trace(among)) / len(among)
        weights[known] = np.linalg.solve(among + noise * np.eye(len(among)), figures[known] - middle)
    return Told(weights, middle, span)


def _means(figures: Floats, which: Ints, count: int) -> tuple[Floats, Bools]:
    """[count, figures]: the mean of the observations at each point; and at which there are any."""
    sums, numbers = np.zeros((count, figures.shape[1])), np.bincount(which, minlength=count)
    np.add.at(sums, which, figures)
    return sums / np.maximum(numbers, 1)[:, None], numbers > 0


def _span(figures: Floats, owners: Ints, kinds: Ints, kept: Bools) -> Floats:
    """[2, kinds, figures]: the least and the most that was observed."""
    if not len(figures):
        return np.zeros((2, len(kinds), len(kept)))
    usual = np.stack((figures.min(axis=0), figures.max(axis=0)))
    spans = []
    for kind in kinds:
        own = figures[owners == kind]
        enough = kept & (len(own) >= ENOUGH)
        spans.append(np.where(enough, (own.min(axis=0), own.max(axis=0)), usual) if enough.any() else usual)
    return np.stack(spans, axis=1)


def _different(rows: Floats) -> tuple[Floats, Ints]:
    """The different rows, and which of them each row is."""
    found, which = np.unique(rows, axis=0, return_inverse=True)
    return found, which.reshape(-1)
