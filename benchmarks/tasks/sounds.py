"""Spoken keywords by synthesis: spectrograms of invented words, as a bank of 32 mel filters would give them.

A word is a row of sounds; each has formants (the resonances of the vocal tract), hiss, or both; between two sounds
everything glides. Speakers differ in pitch, length of the vocal tract, speed and loudness."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from .task import Array, Domain, Draw, Split, Task, balanced

BINS = 32
FRAMES = 32
_FINE = 2
"""Moments that are synthesised for each frame, of which the frame is the mean."""


@dataclass(frozen=True)
class Sound:
    """A speech sound. formants: their places, where the lowest filter is at 0 and the highest at 1; voice, hiss: how
    loud each is; at: the middle of the hiss; length: of this sound, against the others."""

    formants: tuple[float, float, float] = (0.12, 0.4, 0.7)
    voice: float = 0.0
    hiss: float = 0.0
    at: float = 0.7
    length: float = 1.0

    @property
    def track(self) -> tuple[float, ...]:
        return (*self.formants, self.voice, self.hiss, self.at)


SOUNDS = {
    "a": Sound((0.32, 0.47, 0.74), 1.0, length=1.3),
    "e": Sound((0.23, 0.61, 0.78), 0.9, length=1.2),
    "i": Sound((0.13, 0.69, 0.83), 0.8, length=1.1),
    "o": Sound((0.24, 0.36, 0.72), 1.0, length=1.2),
    "u": Sound((0.14, 0.28, 0.68), 0.8, length=1.1),
    "m": Sound((0.09, 0.38, 0.66), 0.35, length=0.8),
    "r": Sound((0.17, 0.42, 0.55), 0.5, length=0.7),
    "s": Sound(hiss=0.5, at=0.92, length=0.9),
    "f": Sound(hiss=0.2, at=0.72, length=0.9),
    "t": Sound(hiss=0.35, at=0.8, length=0.45),
    "k": Sound(hiss=0.35, at=0.55, length=0.5),
}
KNOWN = ("sami", "mosa", "tika", "kuto", "fira", "rofu", "simu", "taro", "keso", "muti", "rifa", "some")
NEW = ("samu", "somi", "tiko", "teko", "furi", "fari", "rame", "remo", "kisa", "kito")


@dataclass(frozen=True)
class Voices:
    """Who speaks, and where. Ranges are drawn from evenly.

    tract    how far formants lie above the usual, in shares of the whole range
    pitch    ripples of the harmonics over all filters
    speed    of speech; a word of average length fills about two thirds of the frames at 1
    accent   for each sound, how far its formants and its hiss are moved
    noise    of the room, against the loudest voice; echo: how much of each moment is still heard in the next
    others   how loud a second speaker is
    """

    tract: tuple[float, float] = (-0.03, 0.05)
    pitch: tuple[float, float] = (9.0, 16.0)
    speed: tuple[float, float] = (0.85, 1.2)
    accent: float = 0.0
    noise: tuple[float, float] = (0.005, 0.05)
    echo: tuple[float, float] = (0.0, 0.3)
    others: tuple[float, float] = (0.0, 0.0)


def _tracks(words: tuple[str, ...], accent: float) -> tuple[Array, Array]:
    """Of each sound of each word what it is made of [words, 4, 6], and how long it is [words, 4]."""
    moves = np.random.default_rng(5).uniform(-accent, accent, (len(SOUNDS), 6)) * np.array([1, 1, 1, 0, 0, 1])
    spoken = {name: np.array(sound.track) + move for (name, sound), move in zip(SOUNDS.items(), moves, strict=True)}
    tracks = np.array([[spoken[letter] for letter in word] for word in words])
    return tracks, np.array([[SOUNDS[letter].length for letter in word] for word in words])


def _spoken(words: tuple[str, ...], labels: Array, voices: Voices, chance: np.random.Generator) -> Array:
    """Energies f32[N, bins, moments] of one speaker each."""
    count, moments = len(labels), FRAMES * _FINE
    tracks, lengths = _tracks(words, voices.accent)
    track = tracks[labels] * chance.uniform(0.96, 1.04, (count, 4, 6))
    length = lengths[labels] * chance.uniform(0.8, 1.25, (count, 4)) / chance.uniform(*voices.speed, (count, 1))
    ends = np.cumsum(length, 1) * moments / 6
    start = chance.uniform(0, 1, (count, 1)) * np.maximum(moments - ends[:, -1:], 0)
    moment = np.arange(moments) - start
    reached = 1 / (1 + np.exp(-(moment[:, None] - ends[:, :, None]) / 1.5))  # of each sound, how far it is over
    begun = np.concatenate([1 / (1 + np.exp(-moment[:, None] / 1.5)), reached[:, :-1]], 1)
    share = np.maximum(begun - reached, 0)
    made = np.einsum("nsm,nsk->nkm", share, track)
    quiet = np.maximum(share.sum(1), 1e-3)
    bins = np.linspace(0, 1, BINS)[None, :, None]
    tract = chance.uniform(*voices.tract, (count, 1, 1))
    energy = np.zeros((count, BINS, moments))
    for number, (width, loud) in enumerate(((0.035, 1.0), (0.045, 0.6), (0.055, 0.3))):
        middle = made[:, number, None] / quiet[:, None] + tract
        energy += loud * np.exp(-(((bins - middle) / width) ** 2))
    pitch = chance.uniform(*voices.pitch, (count, 1, 1)) * (1 + 0.1 * np.sin(moment[:, None] / moments * 6))
    ripple = 1 + 0.6 * np.cos(2 * np.pi * pitch * bins) * np.exp(-2.5 * bins)
    hiss = np.exp(-(((bins - made[:, 5, None] / quiet[:, None] - tract / 2) / 0.12) ** 2))
    grain = chance.exponential(1.0, energy.shape)
    return np.asarray(energy * ripple * made[:, 3, None] + hiss * grain * made[:, 4, None], np.float32)


def spectrograms(count: int, chance: np.random.Generator, words: tuple[str, ...], voices: Voices) -> Split:
    """`pixel_values` f32[N, 1, bins, frames], the logarithm of energies about 0, and the number of the word i64[N]."""
    labels = balanced(count, len(words), chance)
    energy = _spoken(words, labels, voices, chance)
    if voices.others[1]:
        second = _spoken(words, chance.integers(0, len(words), count), voices, chance)
        energy += chance.uniform(*voices.others, (count, 1, 1)).astype(np.float32) * np.roll(second, 7, 0)
    echo = chance.uniform(*voices.echo, (count, 1)).astype(np.float32)
    for moment in range(1, energy.shape[2]):
        energy[:, :, moment] += echo * energy[:, :, moment - 1]
    room = chance.uniform(*voices.noise, (count, 1, 1)) * chance.exponential(1.0, energy.shape)
    frames = (energy + room).reshape(count, BINS, FRAMES, _FINE).mean(3)
    logs = np.log(frames + 1e-3)
    logs -= logs.mean((1, 2), keepdims=True)
    logs /= logs.std((1, 2), keepdims=True) + 1e-3
    return Split({"pixel_values": logs[:, None].astype(np.float32)}, labels)


_USUAL = Voices()
DOMAIN = Domain(
    "sounds",
    "12 invented words of four sounds each, said by adults in a quiet room, as log-mel spectrograms.",
    partial(spectrograms, words=KNOWN, voices=_USUAL),
    len(KNOWN),
)

_TABLE: tuple[tuple[str, str, int, tuple[str, ...], Voices], ...] = (
    ("new-words-said", "10 words that the pre-training never heard, alike in pairs, beside a running tap", 200, NEW,
        replace(_USUAL, noise=(0.2, 0.7))),
    (
        "far-away", "the known words from far away: echo, noise of a room, a second speaker", 600, KNOWN,
        replace(_USUAL, noise=(0.15, 0.6), echo=(0.7, 0.9), others=(0.3, 0.7)),
    ),
    (
        "foreign", "new words in an accent that moves each sound's formants, among others", 200, NEW,
        replace(_USUAL, accent=0.12, noise=(0.15, 0.6), others=(0.1, 0.4)),
    ),
    (
        "children", "the known words said by children: high, fast, short vocal tracts, noise", 200, KNOWN,
        replace(_USUAL, tract=(0.1, 0.2), pitch=(4.0, 7.0), speed=(1.2, 1.7), noise=(0.1, 0.4)),
    ),
)  # fmt: skip


def _task(name: str, shift: str, samples: int, words: tuple[str, ...], voices: Voices) -> Task:
    drawing: Draw = partial(spectrograms, words=words, voices=voices)
    return Task(name, DOMAIN.name, shift, len(words), samples, drawing, keeps_labels=words == KNOWN)


TASKS = tuple(_task(*row) for row in _TABLE)
