"""The protocol between the compiler and what turns its graphs into programs of a device.

`docs/reference/backends.md` says how to add one. Knows no backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..ir import Array, DType, Node
from ..plan.lowering import Lowers
from ..plan.pipeline import Pipeline
from ..progress import Progress
from ..targets import Target
from .model import Model
from .tunable import CheckedTrial, Choice, Measurer, PackLimits, Picks, Tunable


@dataclass(frozen=True)
class Limits:
    """What a backend can make for a target, beside single nodes.

    formats  the number formats in which contractions may multiply, of `targets.COMPUTE`
    tunes    whether it has choices that can be measured
    clock    cycles a second of what runs its kernels; None: the processor's
    stored   16-bit floats in which it reads frozen parameters; it computes with none
    trained  16-bit floats in which it also keeps parameters that are trained
    offloads whether its programs leave what a recipe says in the memory of a GPU's host"""

    formats: tuple[str, ...]
    tunes: bool
    clock: float | None = None
    stored: tuple[DType, ...] = ()
    trained: tuple[DType, ...] = ()
    offloads: bool = False


@dataclass(frozen=True)
class Built:
    """What makes an artifact run.

    members       its files by name; weights, graphs and manifest come from elsewhere
    entry_points  `executable`, `library` and `header`: which of the members they are
    tools         what else made them, by name, with its version
    kernels       different kernels
    cache_hits    how many of them were there already"""

    members: Mapping[str, bytes]
    entry_points: Mapping[str, str]
    tools: Mapping[str, str]
    kernels: int
    cache_hits: int


@dataclass(frozen=True)
class PackedTrials:
    """A pack of trials for a device (docs/tuning.md): what makes it run, the numbers that its results are compared
    with, and the most memory that operands and results of one workload take."""

    built: Built
    numbers: Array
    nbytes: int


@dataclass(frozen=True)
class Description:
    """How a node is computed, for people: one row of `pock compile --explain`.

    family          what is computed: `matmul`, `conv2d`
    multiplies_in   the number format of its products
    schedule        the choice in words
    choice          the choice as plain data
    share_of_peak   part of the device's arithmetic that is expected"""

    family: str
    multiplies_in: str
    schedule: str
    choice: Mapping[str, Any]
    share_of_peak: float | None


class Backend(Lowers, Protocol):
    """Turns legal nodes into kernels, and planned programs into what runs on a device."""

    @property
    def name(self) -> str:
        """What it is called by `--backend` and in manifests."""

    @property
    def pipeline(self) -> Pipeline:
        """The passes that make a graph what it lowers."""

    def limits(self, target: Target) -> Limits:
        """What it can make for a target."""

    def claims(self, node: Node) -> bool:
        """Whether a composite is lowered whole, which must be possible, instead of being expanded."""

    def identity(self, node: Node) -> str | None:
        """What a choice for this node is known by; nodes with equal ones are computed alike. None: there is no
        choice."""

    def tuned(self, picks: Picks) -> Backend:
        """This backend with choices, by `identity`."""

    def describe(self, node: Node, target: Target, threads: int, choice: Choice | None = None) -> Description | None:
        """How a node is computed with a choice, or with the usual one; None where it has none."""

    def tunable(self, node: Node, target: Target, threads: int) -> Tunable | None:
        """What can be chosen when a node is lowered; None where it has no `identity`."""

    def environment(self, target: Target) -> Mapping[str, str]:
        """What the speed of a kernel depends on beside its text and the machine, by name: compiler, flags."""

    def runs_here(self, target: Target) -> bool:
        """Whether this machine is the target, so that its kernels can be measured here."""

    def measurer(self, target: Target, threads: int, cache: Path | None = None) -> Measurer | None:
        """What runs kernels on this machine, which must be the target, to measure them; `cache` is that of `build`.
        None where nothing can be measured."""

    def checkable(self, node: Node) -> bool:
        """Whether a program of `pack` can compare what this node computes."""

    def pack(
        self,
        trials: Sequence[CheckedTrial],
        target: Target,
        threads: int,
        limits: PackLimits,
        cache: Path | None,
        progress: Progress,
    ) -> PackedTrials | None:
        """A program that runs trials on a device and reports on them. None where nothing can be measured; raises
        ToolchainError."""

    def prepare(self, target: Target, cache: Path | None = None) -> None:
        """Make what a target's first build needs beside its kernels, so that it is quick. Raises ToolchainError."""

    def build(self, model: Model, target: Target, cache: Path | None, progress: Progress) -> Built:
        """What makes a model run on a target; `cache` is the folder of what was compiled before (default: the
        platform's), and the stages that `progress` hears of are `compile` and `link`. Raises ToolchainError naming a
        kernel that fails."""
