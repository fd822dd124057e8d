"""Draws images of figures before a background, among others, in some light, seen by some camera.

Images are f32[N, 3, side, side] with values from 0 to 1; masks say for each pixel what is seen there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..task import Array
from . import outlines, surfaces

SIDE = 32
"""Pixels of an image, each way."""
_AT_ONCE = 1000
"""Images that are drawn together: their arrays stay in the cache."""
_EDGE = 2.0 / SIDE
"""Width of a pixel, where the image is 2 wide."""

Range = tuple[float, float]


@dataclass(frozen=True)
class Look:
    """How the images of a family look. A range is drawn from evenly, for each image anew.

    size         of the figure: its radius, where the image reaches from -1 to 1
    turn         how far it is turned either way, in radians
    fills        of figures; backgrounds: of what is behind; both by number
    contrast     the least distance between the colours of figure and background, and of the two of a surface
    others       figures beside it, at least and at most, of the shapes of `company`, at `other_size`
    line         width of the figure's line where only that is drawn; None: it is filled
    brightness   factor on all light; slope: how much brighter one side is than the other
    cast         how far the light is from white
    noise        standard deviation of the camera's noise; blur: passes of a 3 x 3 mean; coarse: share of images whose
                 pixels are twice as large; dead: share of pixels that are black or white
    """

    size: Range = (0.5, 0.85)
    turn: float = np.pi
    fills: tuple[int, ...] = surfaces.numbers("plain", "shaded")
    backgrounds: tuple[int, ...] = surfaces.numbers("plain", "shaded")
    contrast: float = 0.45
    others: tuple[int, int] = (0, 0)
    other_size: Range = (0.2, 0.35)
    company: tuple[int, ...] = (0,)
    line: Range | None = None
    brightness: Range = (0.85, 1.15)
    slope: float = 0.15
    cast: float = 0.0
    noise: Range = (0.01, 0.05)
    blur: tuple[int, int] = (0, 0)
    coarse: float = 0.0
    dead: Range = (0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Subjects:
    """What is in each image; arrays [N].

    shape, surface  numbers; surface -1: any of the look's
    turn            radians; NaN: any of the look's
    copies          how many of the figure there are; more than one stand apart from each other"""

    shape: Array
    surface: Array
    turn: Array
    copies: Array

    @classmethod
    def of(
        cls, shape: Array, surface: Array | None = None, turn: Array | None = None, copies: Array | None = None
    ) -> Subjects:
        """One figure in each image, whatever is not said left to the look."""
        count = len(shape)
        return cls(
            np.asarray(shape),
            np.full(count, -1) if surface is None else surface,
            np.full(count, np.nan) if turn is None else turn,
            np.ones(count, int) if copies is None else copies,
        )

    def at(self, places: slice) -> Subjects:
        """Those of some of the images."""
        return Subjects(self.shape[places], self.surface[places], self.turn[places], self.copies[places])


def draw(look: Look, subjects: Subjects, chance: np.random.Generator) -> tuple[Array, Array]:
    """Images, and masks bool[N, side, side] of where a figure is seen."""
    parts = []
    for start in range(0, len(subjects.shape), _AT_ONCE):
        canvas = _Canvas(look, subjects.at(slice(start, start + _AT_ONCE)), chance)
        parts.append((canvas.finished(), canvas.mask))
    images, masks = zip(*parts, strict=True)
    return np.concatenate(images), np.concatenate(masks)


class _Canvas:
    """Some images, as they are drawn from back to front."""

    def __init__(self, look: Look, subjects: Subjects, chance: np.random.Generator) -> None:
        self.look, self.subjects, self.chance = look, subjects, chance
        self.count = len(subjects.shape)
        middles = (np.arange(SIDE, dtype=np.float32) + 0.5) * np.float32(_EDGE) - 1
        self.x, self.y = np.broadcast_to(middles, (1, SIDE, SIDE)), middles[None, :, None]
        self.ground = self._even(0, 1, 3, 1, 1)
        self.pixels = self._background()
        self.mask = np.zeros((self.count, SIDE, SIDE), bool)
        self._company()
        self._figures()

    def _even(self, low: float, high: float, *shape: int) -> Array:
        """Evenly drawn f32[N, *shape]; [N, 1, 1] where nothing is said."""
        drawn = self.chance.random((self.count, *(shape or (1, 1))), np.float32)
        return np.float32(low) + np.float32(high - low) * drawn

    def _away_from(self, colour: Array) -> Array:
        """Colours [N, 3, 1, 1] at least the look's contrast away from others, in the mean of the channels' distance."""
        found = self._even(0, 1, 3, 1, 1)
        for _ in range(4):
            near = np.abs(found - colour).mean(1, keepdims=True) < self.look.contrast
            found = np.where(near, self._even(0, 1, 3, 1, 1), found)
        near = np.abs(found - colour).mean(1, keepdims=True) < self.look.contrast
        return np.where(near, np.where(colour > 0.5, colour - 0.5, colour + 0.5), found).astype(np.float32)

    def _surface(self, kinds: Array, u: Array, v: Array, colours: tuple[Array, Array], scale: Array) -> Array:
        """Colours [N, 3, side, side] of the surfaces with these numbers [N]."""
        mixed = np.empty((self.count, SIDE, SIDE), np.float32)
        u, v = np.broadcast_to(u, mixed.shape), np.broadcast_to(v, mixed.shape)
        for kind in np.unique(kinds):
            here = kinds == kind
            mixed[here] = surfaces.SURFACES[surfaces.NAMES[kind]](u[here], v[here], scale[here], self.chance)
        return colours[0] + (colours[1] - colours[0]) * mixed[:, None]

    def _background(self) -> Array:
        kinds = self.chance.choice(self.look.backgrounds, self.count)
        turn = self._even(0, 2 * np.pi)
        u, v = np.cos(turn) * self.x + np.sin(turn) * self.y, np.cos(turn) * self.y - np.sin(turn) * self.x
        other = np.clip(self.ground + self._even(-0.3, 0.3, 3, 1, 1), 0, 1)
        return self._surface(kinds, u, v, (self.ground, other), self._even(5, 11))

    def _placed(self, at: tuple[Array, Array], size: Array, turn: Array) -> tuple[Array, Array]:
        """Points of the image as a figure of this size and turn at this place sees them."""
        x, y = (self.x - at[0]) / size, (self.y - at[1]) / size
        return np.cos(turn) * x + np.sin(turn) * y, np.cos(turn) * y - np.sin(turn) * x

    def _cover_of(self, shapes: Array, u: Array, v: Array, size: Array, line: Range | None) -> Array:
        """How much of each pixel a figure covers [N, side, side]."""
        far = np.empty((self.count, SIDE, SIDE), np.float32)
        for shape in np.unique(shapes):
            here = shapes == shape
            far[here] = outlines.OUTLINES[outlines.NAMES[shape]](u[here], v[here])
        far *= size
        if line is not None:
            far = np.abs(far) - self._even(*line)
        return np.asarray(np.clip(0.5 - far / _EDGE, 0, 1))

    def _put(self, colours: Array, cover: Array) -> None:
        self.pixels += (colours - self.pixels) * cover[:, None]

    def _company(self) -> None:
        """Small figures near the border."""
        look = self.look
        wanted = self.chance.integers(look.others[0], look.others[1] + 1, self.count)
        for number in range(look.others[1]):
            size, angle = self._even(*look.other_size), self._even(0, 2 * np.pi)
            far = self._even(0.65, 0.95)
            at = far * np.cos(angle), far * np.sin(angle)
            u, v = self._placed(at, size, self._even(0, 2 * np.pi))
            cover = self._cover_of(self.chance.choice(look.company, self.count), u, v, size, look.line)
            colour = self._away_from(self.ground)
            self._put(np.broadcast_to(colour, self.pixels.shape), cover * (number < wanted)[:, None, None])

    def _figures(self) -> None:
        look, subjects = self.look, self.subjects
        colour = self._away_from(self.ground)
        other = self._away_from(colour)
        kinds = np.where(subjects.surface < 0, self.chance.choice(look.fills, self.count), subjects.surface)
        places = self._places()
        for number in range(int(subjects.copies.max())):
            size = self._even(*look.size)
            given = subjects.turn.astype(np.float32)[:, None, None]
            turn = np.where(np.isnan(given), self._even(-look.turn, look.turn), given)
            room = np.maximum(0, 0.95 - size) * (number == 0) * (subjects.copies == 1)[:, None, None]
            at = places[number][0] + room * self._even(-1, 1), places[number][1] + room * self._even(-1, 1)
            u, v = self._placed(at, size, turn)
            cover = self._cover_of(subjects.shape, u, v, size, look.line) * (number < subjects.copies)[:, None, None]
            self._put(self._surface(kinds, u, v, (colour, other), self._even(5, 9)), cover)
            self.mask |= cover > 0.5

    def _places(self) -> list[tuple[Array, Array]]:
        """Where copies stand: the middle, or cells of a 3 x 3 board in random order, each a little off."""
        if self.subjects.copies.max() == 1:
            return [(np.zeros((self.count, 1, 1), np.float32),) * 2]
        cells = np.argsort(self.chance.random((self.count, 9)), 1)
        found = []
        for number in range(int(self.subjects.copies.max())):
            row, column = np.divmod(cells[:, number, None, None], 3)
            off = self._even(-0.1, 0.1), self._even(-0.1, 0.1)
            found.append(((column - 1) * np.float32(0.62) + off[0], (row - 1) * np.float32(0.62) + off[1]))
        return found

    def finished(self) -> Array:
        """What the camera sees."""
        look, pixels = self.look, self.pixels
        angle = self._even(0, 2 * np.pi)
        slope = 1 + look.slope * (np.cos(angle) * self.x + np.sin(angle) * self.y)
        pixels *= (slope * self._even(*look.brightness))[:, None]
        pixels *= 1 - self._even(0, look.cast, 3, 1, 1)
        passes = self.chance.integers(look.blur[0], look.blur[1] + 1, self.count)
        for number in range(look.blur[1]):
            here = passes > number
            pixels[here] = _mean_of_neighbours(pixels[here])
        here = self.chance.random(self.count) < look.coarse
        small = pixels[here].reshape(-1, 3, SIDE // 2, 2, SIDE // 2, 2).mean((3, 5))
        pixels[here] = small.repeat(2, 2).repeat(2, 3)
        pixels += self._even(*look.noise, 1, 1, 1) * self.chance.standard_normal(pixels.shape, np.float32)
        if look.dead[1] > 0:
            drawn, share = self._even(0, 1, 1, SIDE, SIDE), self._even(*look.dead, 1, 1, 1)
            pixels = np.where(drawn < share, (drawn < share / 2).astype(np.float32), pixels)
        result: Array = np.clip(pixels, 0, 1)
        return result


def _mean_of_neighbours(images: Array) -> Array:
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    rows = padded[:, :, :-2] + padded[:, :, 1:-1] + padded[:, :, 2:]
    result: Array = (rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]) / 9
    return result
