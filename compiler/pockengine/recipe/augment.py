"""What training changes about the samples at random. Knows no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import RecipeError, nearest
from .fields import as_count, as_number, as_positive, as_text, describe
from .keys import canonical, key, read_keys
from .losses.kinds import Loss, OwnLoss

MOST = 16
"""Operations of a recipe."""


def _chance(value: object, where: str) -> float:
    return as_number(value, where, 0.0, 1.0, above=True)


def _fill(value: object, where: str) -> float:
    return as_number(value, where, -1e30, 1e30)


def _alpha(value: object, where: str) -> float:
    return as_number(value, where, 0.01, 32.0)


def _axes(value: object, where: str) -> tuple[int, ...]:
    """One axis or a list of at least one; not the first, along which samples lie."""
    axes = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not axes or not all(type(axis) is int and axis and abs(axis) < 64 for axis in axes):
        raise RecipeError(
            f"{where} must be numbers of axes such as [-2, -1] (axis 0 is that of the samples), not {describe(value)}"
        )
    return axes


@dataclass(frozen=True)
class Augmentation:
    """What every operation has.

    input  the model's input that is changed; None: its images, or its only input of floating-point numbers"""

    name: ClassVar[str]

    input: str | None = key(as_text, None)

    def to_mapping(self) -> dict[str, Any]:
        """Name, and what differs from the default."""
        return {"name": self.name, **canonical(self)}


@dataclass(frozen=True)
class Placing(Augmentation):
    """What operations have that put elements elsewhere.

    axes  of the input, negative ones counted from its end; None: those of an image's pixels, else the last"""

    axes: tuple[int, ...] | None = key(_axes, None)


@dataclass(frozen=True)
class Flip(Placing):
    """A sample is mirrored along each of the axes with probability `p`; without `axes`, from left to right."""

    name: ClassVar[str] = "flip"

    p: float = key(_chance, 0.5, always=False)


@dataclass(frozen=True)
class Crop(Placing):
    """A sample is padded with `fill` on all sides, and a part of the input's size is cut out of it: moved by up to
    `padding` elements each way, the same chance for each place."""

    name: ClassVar[str] = "crop"

    padding: int = key(as_count, 4)
    fill: float = key(_fill, 0.0, always=False)


@dataclass(frozen=True)
class Noise(Augmentation):
    """Normally distributed numbers of the standard deviation `std` are added, one to each element."""

    name: ClassVar[str] = "noise"

    std: float = key(as_positive, 0.1)


@dataclass(frozen=True)
class Mixup(Augmentation):
    """Each sample becomes s * itself + (1 - s) * the next one of the batch, and the loss s * the loss against its own
    targets + (1 - s) * the loss against the next one's (Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR
    2018). s is drawn for each batch from the beta distribution with both parameters `alpha`."""

    name: ClassVar[str] = "mixup"

    alpha: float = key(_alpha, 0.2)


AUGMENTATIONS: dict[str, type[Augmentation]] = {kind.name: kind for kind in (Flip, Crop, Noise, Mixup)}
"""By name in the recipe."""


def augmentations_of(value: object, where: str = "augment") -> tuple[Augmentation, ...]:
    """From a name, a mapping `{name, …}`, or a list of these; raises RecipeError."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        return (_augmentation(value, where),)
    if len(value) > MOST:
        raise RecipeError(f"{where} has {len(value)} operations, and {MOST} is the most")
    found = tuple(_augmentation(item, f"{where}[{index}]") for index, item in enumerate(value))
    if sum(isinstance(one, Mixup) for one in found) > 1:
        raise RecipeError(f"{where} has mixup twice: leave one out")
    return found


def refuse_mixing(augment: Sequence[Augmentation], losses: Sequence[Loss], last_batch: str) -> None:
    """Raise RecipeError where mixup would mix what has no targets of its own."""
    if not any(isinstance(one, Mixup) for one in augment):
        return
    if last_batch == "partial":
        raise RecipeError("mixup would mix samples with the padding of last_batch: partial; use last_batch: drop")
    if any(isinstance(loss, OwnLoss) for loss in losses):
        raise RecipeError("mixup needs a loss that the recipe computes: the model's own knows no second targets")


def _augmentation(value: object, where: str) -> Augmentation:
    if isinstance(value, Augmentation):
        return value
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise RecipeError(
            f"{where} must be a name or a mapping such as {{name: crop, padding: 4}}, not {describe(value)}"
        )
    if "name" not in value:
        raise RecipeError(f"{where} needs a name{nearest('', AUGMENTATIONS)}")
    name = as_text(value["name"], f"{where}.name")
    if name not in AUGMENTATIONS:
        raise RecipeError(f"there is no augmentation '{name}'{nearest(name, AUGMENTATIONS)}")
    kind = AUGMENTATIONS[name]
    return kind(**read_keys(kind, value, f"{where} ('{name}')", prefix=where))
