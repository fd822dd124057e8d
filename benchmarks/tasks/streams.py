"""Movements of people as the motion sensor in a pocket records them: acceleration and rotation on three axes each.

An activity is a period, and on each axis some harmonics of it; a person has a tempo, a strength, and wears the sensor
turned in a way of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from .task import Array, Domain, Draw, Split, Task, balanced

AXES = 6
LENGTH = 64
_HARMONICS = 4
_ACTIVITIES = np.random.default_rng(11)
"""Chance that made the activities, the same for ever."""

PERIODS = _ACTIVITIES.uniform(14, 26, 16)
STRENGTHS = _ACTIVITIES.gamma(0.7, 1.0, (16, AXES, _HARMONICS)) * np.array([1.0, 0.7, 0.45, 0.3])
PHASES = _ACTIVITIES.uniform(0, 2 * np.pi, (16, AXES, _HARMONICS))
POSTURES = _ACTIVITIES.normal(0, 0.5, (16, 3))
KNOWN, NEW = tuple(range(8)), tuple(range(8, 14))


@dataclass(frozen=True)
class Wearers:
    """Who wears the sensor, and how.

    people   how many there are; each sample is of one of them
    first    the number of the first: people of different numbers are different people
    turn     how far the sensor is turned from the usual way, in radians
    tempo    how far a person's tempo is from the usual, either way, as a share
    noise    standard deviation of the sensor's noise; lost: share of moments whose values are those before them
    limit    the largest value that the sensor tells
    """

    people: int = 40
    first: int = 0
    turn: float = 0.6
    tempo: float = 0.15
    noise: float = 0.4
    lost: float = 0.0
    limit: float = 8.0


def _turned(angles: Array) -> Array:
    """Rotations [N, 3, 3] about the vectors [N, 3], as far as these are long (Rodrigues)."""
    length = np.linalg.norm(angles, axis=1)[:, None, None]
    x, y, z = (angles / np.maximum(length[:, 0], 1e-9)).T
    zero = np.zeros_like(x)
    cross = np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]]).transpose(2, 0, 1)
    return np.asarray(np.eye(3) + np.sin(length) * cross + (1 - np.cos(length)) * cross @ cross)


def recordings(count: int, chance: np.random.Generator, activities: tuple[int, ...], wearers: Wearers) -> Split:
    """`signal` f32[N, axes, length] and the number of the activity among `activities` i64[N]."""
    labels = balanced(count, len(activities), chance)
    kinds = np.asarray(activities)[labels]
    people = [np.random.default_rng([23, wearers.first + number]) for number in range(wearers.people)]
    direction = np.array([one.standard_normal(3) for one in people])
    turns = wearers.turn * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    tempos = np.array([1 + one.uniform(-wearers.tempo, wearers.tempo) for one in people])
    gains = np.array([one.uniform(0.6, 1.4, (AXES, _HARMONICS)) for one in people])
    lags = np.array([one.uniform(-0.6, 0.6, (AXES, _HARMONICS)) for one in people])
    who = chance.integers(0, wearers.people, count)

    tempo = tempos[who] * chance.uniform(0.9, 1.1, count)
    moment = np.arange(LENGTH) + chance.uniform(0, 100, (count, 1))
    stride = 2 * np.pi * moment / (PERIODS[kinds] / tempo)[:, None]
    order = np.arange(1, _HARMONICS + 1)[:, None]
    waves = np.sin(order * stride[:, None, None, :] + (PHASES[kinds] + lags[who])[..., None])
    strength = STRENGTHS[kinds] * gains[who] * chance.uniform(0.6, 1.4, (count, AXES, 1))
    signal = np.einsum("nah,nahm->nam", strength, waves)
    signal[:, :3] += (POSTURES[kinds] + np.array([0.0, 0.0, 1.0]))[:, :, None]
    turned = _turned(turns[who] + chance.normal(0, 0.15, (count, 3)))
    signal = np.concatenate([turned @ signal[:, :3], turned @ signal[:, 3:]], 1)
    signal += wearers.noise * chance.standard_normal(signal.shape)
    lost = chance.random((count, 1, LENGTH)) < wearers.lost
    for at in range(1, LENGTH):
        signal[..., at] = np.where(lost[..., at], signal[..., at - 1], signal[..., at])
    return Split({"signal": np.clip(signal, -wearers.limit, wearers.limit).astype(np.float32)}, labels)


_MANY = Wearers()
DOMAIN = Domain(
    "streams",
    "8 activities of 40 people, 64 moments of 6 axes each, the sensor worn about the usual way.",
    partial(recordings, activities=KNOWN, wearers=_MANY),
    len(KNOWN),
)

_TABLE: tuple[tuple[str, str, int, tuple[int, ...], Wearers], ...] = (
    (
        "new-user", "the known activities of one person who wears the sensor turned far and has a tempo of their own",
        200, KNOWN, Wearers(people=1, first=102, turn=2.2, tempo=0.4, noise=0.5),
    ),
    (
        "new-activities", "6 activities that the pre-training never saw, of ten new people", 400, NEW,
        replace(_MANY, people=10, first=200, noise=0.6),
    ),
    (
        "worn-sensor", "the known activities of two new people: noise, moments lost, values cut off", 600, KNOWN,
        Wearers(people=2, first=300, turn=1.3, noise=0.5, lost=0.3, limit=2.0),
    ),
)  # fmt: skip


def _task(name: str, shift: str, samples: int, activities: tuple[int, ...], wearers: Wearers) -> Task:
    drawing: Draw = partial(recordings, activities=activities, wearers=wearers)
    return Task(name, DOMAIN.name, shift, len(activities), samples, drawing, keeps_labels=activities == KNOWN)


TASKS = tuple(_task(*row) for row in _TABLE)
