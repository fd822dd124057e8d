"""From what segments took in some schemes to what they will take in others: a Gaussian process.

Its mean is linear in what a segment sees of a choice, plus a correction that fades with the distance from what was
observed (Rasmussen and Williams, "Gaussian processes for machine learning", 2006, eq. 2.25). Segments that compute
alike learn from each other's observations, in parts of their sizes: those of equal shapes as much as from their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .segments import Bools, Floats, Ints

LINEAR, NEAR, REACH = 0.1, 1.0, 6.0
"""Variance of the linear part and of the correction, and how far the correction reaches."""

ALIKE = 0.8
"""How much segments of one class but of other shapes tell about each other."""

NOISE = 1e-4
"""The part of the variance that is no function of what a segment sees."""

ENOUGH = 5
"""Observations of a kind after which it is told nothing beyond them."""

MOST = 512
"""Observations that one class learns from: the latest schemes'."""


@dataclass(frozen=True, eq=False)
class Learned:
    """What is known of one class.

    members  its segments
    kinds    of these
    owners   [observations]: the kind of the segment that each is of
    points   [observations, features], about their centre
    weights  [observations, figures]
    middle   [figures]
    span     [2, members, figures]: the least and the most that was observed of each kind, beyond which nothing is told
    centre   [features]"""

    members: Ints
    kinds: Ints
    owners: Ints
    points: Floats
    weights: Floats
    middle: Floats
    span: Floats
    centre: Floats

    def of(self, features: Floats) -> Floats:
        """[members, figures], of [members, features]."""
        similar = _similar(features - self.centre, self.points, self.kinds, self.owners)
        return np.clip(similar @ self.weights + self.middle, *self.span)


@dataclass(frozen=True, eq=False)
class Regression:
    """classes  of segments
    scales   [segments, figures]: that of which figures are parts"""

    classes: tuple[Learned, ...]
    scales: Floats

    @classmethod
    def fit(
        cls,
        features: Floats,
        figures: Floats,
        counts: Bools,
        alike: tuple[Sequence[int], Sequence[int]],
        scales: Floats,
    ) -> Regression:
        """features  [schemes, segments, features]
        figures   [schemes, segments, figures]
        counts    [schemes, segments]: whether a scheme says something of a segment
        alike     kind and class of each segment
        scales    [segments, figures]: the figures' sizes, above 0"""
        kinds, classes = (np.asarray(one) for one in alike)
        parts = figures / scales
        learned = []
        for one in np.unique(classes):
            members = np.flatnonzero(classes == one)
            chosen = counts[:, members]
            owners = np.broadcast_to(kinds[members], chosen.shape)[chosen]
            points, wanted = features[:, members][chosen], parts[:, members][chosen]
            learned.append(_learned(members, kinds[members], owners[-MOST:], points[-MOST:], wanted[-MOST:]))
        return cls(tuple(learned), scales)

    def of(self, features: Floats) -> Floats:
        """[segments, figures], of [segments, features]."""
        found = np.zeros(self.scales.shape)
        for one in self.classes:
            found[one.members] = one.of(features[one.members])
        return found * self.scales


def _similar(features: Floats, points: Floats, kinds: Ints, owners: Ints) -> Floats:
    """[n, observations]: how much each observation tells about segments of these kinds that see `features`."""
    product = features @ points.T
    apart = np.abs(features[:, None, :] - points[None, :, :]).sum(axis=2)
    same = np.where(kinds[:, None] == owners, 1.0, ALIKE)
    told: Floats = same * (LINEAR * product + NEAR * np.exp(-apart / REACH))
    return told


def _span(figures: Floats) -> Floats:
    return np.stack((figures.min(axis=0), figures.max(axis=0)))


def _learned(members: Ints, kinds: Ints, owners: Ints, points: Floats, figures: Floats) -> Learned:
    """What [n, features] and [n, figures] that were observed of segments of the kinds `owners` tell."""
    if not len(points):
        nothing = np.zeros((2, len(members), figures.shape[1]))
        return Learned(members, kinds, owners, points, figures, nothing[0, 0], nothing, np.zeros(points.shape[1]))
    middle, centre = figures.mean(axis=0), points.mean(axis=0)
    points = points - centre
    similar = _similar(points, points, owners, owners)
    noise = NOISE * max(1.0, float(np.trace(similar)) / len(points))
    weights = np.linalg.solve(similar + noise * np.eye(len(points)), figures - middle)
    own = [figures[owners == kind] for kind in kinds]
    span = np.stack([_span(seen if len(seen) >= ENOUGH else figures) for seen in own], axis=1)
    return Learned(members, kinds, owners, points, weights, middle, span, centre)
