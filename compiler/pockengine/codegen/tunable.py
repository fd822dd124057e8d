"""What tuning asks of a backend: which nodes leave a choice, what can be chosen, and what candidates do when they run.

A *choice* is what a template takes beside the node, such as the blocks of a contraction. It never changes results
beyond rounding. Tuning compares, stores and shows choices, and knows nothing else of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..ir import Array, Node
from ..plan.program import Lowered
from .common.scratch import LINE_BYTES, aligned
from .common.storage import stored

Report = Callable[[int, int], None]
"""Called with (kernels compiled, kernels in all)."""


class Choice(Protocol):
    """A way to compute a node: data that can be hashed and compared."""

    def __hash__(self) -> int:
        """Equal choices have equal ones."""

    @property
    def multiplies_in(self) -> str:
        """The formats in which it multiplies: f32, bf16x3, bf16 or f16."""

    def to_plain(self) -> Any:
        """Plain values, as JSON stores them: equal ones are equal choices."""

    def describe(self) -> str:
        """One line for a person."""


@dataclass(frozen=True)
class Candidate:
    """One choice; `cycles` is what the backend's model expects, None where there is no model; `library` what has to be
    installed for it to be worth measuring."""

    choice: Choice
    cycles: float | None
    library: str | None = None


class Tunable(Protocol):
    """A node whose lowering leaves a choice, on one target for so many threads."""

    @property
    def family(self) -> str:
        """What it is a kind of, as `matmul`: choices carry over between shapes of one family."""

    def candidates(self, wide: bool = False) -> Sequence[Candidate]:
        """What can be chosen, the model's choice first. `wide` has more."""

    def appraised(self, candidates: Sequence[Candidate], cache: Path | None = None) -> list[Candidate]:
        """Some of them as they look once their kernels are compiled: those that are then expected to be quickest first,
        those that no measurement is worth left out. `cache` is the folder of compiled ones."""

    def lower(self, choice: Choice | None = None) -> Lowered:
        """The kernels with a choice; default: the model's."""

    def share_of_peak(self, choice: Choice | None = None) -> float | None:
        """The part of the arithmetic peak that the model expects; None where there is no model."""


@dataclass(frozen=True)
class Trial:
    """One workload to measure: a node, and the ways to compute it that are compared. Operands begin at multiples of
    `alignment` bytes, as they do in a model."""

    node: Node
    candidates: tuple[Lowered, ...]
    alignment: int = LINE_BYTES

    @property
    def input_offsets(self) -> list[int]:
        """Where each input begins, in bytes."""
        return self._inputs[:-1]

    @property
    def output_offsets(self) -> list[int]:
        """Where each output begins, in bytes."""
        return self._outputs[:-1]

    @property
    def input_bytes(self) -> int:
        return self._inputs[-1]

    @property
    def output_bytes(self) -> int:
        return self._outputs[-1]

    @property
    def _inputs(self) -> list[int]:
        return _offsets([value.type.nbytes for value in self.node.inputs], self.alignment)

    @property
    def _outputs(self) -> list[int]:
        return _offsets([value.type.nbytes for value in self.node.outputs], self.alignment)

    def arena_bytes(self) -> int:
        """Outputs, then the scratch memory of the candidate that wants most."""
        return self.output_bytes + max(aligned(lowered.workspace_bytes) for lowered in self.candidates)

    def pack(self, inputs: Sequence[Array]) -> bytes:
        """The inputs as the candidates read them."""
        memory = bytearray(self.input_bytes)
        for value, array, offset in zip(self.node.inputs, inputs, self.input_offsets, strict=True):
            data = stored(value.type, array)
            memory[offset : offset + len(data)] = data
        return bytes(memory)


def _offsets(sizes: Sequence[int], alignment: int) -> list[int]:
    """Where things of these sizes begin, one behind the other, and where the last one ends."""
    step = max(alignment, LINE_BYTES)
    found = [0]
    for size in sizes:
        found.append(-(-(found[-1] + size) // step) * step)
    return found


@dataclass(frozen=True)
class Operand:
    """What an input of a trial holds: element i is `values[pick(seed + i, len(values))]` (common/draws.py)."""

    values: Array
    seed: int


@dataclass(frozen=True)
class Wanted:
    """What an output of a trial must hold: the numbers [alternatives, checked] that its elements are near to: all
    of them, or those that `seed` draws; `slack` is what may be off beside the relative error."""

    numbers: Array
    slack: float
    seed: int


@dataclass(frozen=True)
class CheckedTrial:
    """A trial whose program makes its operands itself and compares its results."""

    trial: Trial
    operands: tuple[Operand, ...]
    wanted: tuple[Wanted, ...]


@dataclass(frozen=True)
class PackLimits:
    """How a pack of trials is run: bytes swept before each timed run, milliseconds for each workload, and the relative
    error that a number may have."""

    evict_bytes: int
    budget_ms: float
    relative: float


@dataclass(frozen=True)
class RunLimits:
    """How often candidates are run: `rounds` each, fewer once `budget_ms` have gone by. Before each run every thread
    sweeps over `evict_bytes`. 0 rounds: only what they compute."""

    rounds: int
    budget_ms: float
    evict_bytes: int


@dataclass(frozen=True)
class Run:
    """What one candidate did: milliseconds of each round, and whether it wrote beyond its memory. `output` is the file
    of what it computed, laid out as its trial says; `failure` says why there is nothing of all that."""

    ms: tuple[float, ...] = ()
    output: Path | None = None
    overrun: bool = False
    failure: str | None = None


@dataclass(frozen=True)
class Bandwidth:
    """A level of memory: its bytes (None: the memory behind the caches), and the bytes a second that are read or
    written in it at best."""

    level: str
    nbytes: int | None
    rate: float


@dataclass(frozen=True)
class Peak:
    """What `threads` together can do: operations a second, and each level's bandwidth, the nearest first."""

    flops: float
    memory: tuple[Bandwidth, ...]
    threads: int


class Measurement(Protocol):
    """Trials that are ready to run."""

    def run(self, index: int, inputs: Sequence[Array], limits: RunLimits) -> list[Run]:
        """Every candidate of trial `index` on these inputs. A candidate that crashes takes nothing with it. The files
        of outputs are there until the next call."""


class Measurer(Protocol):
    """Runs a target's kernels with so many threads on this machine, which must be the target."""

    def has(self, library: str) -> bool:
        """Whether what a candidate names is installed here."""

    def build(self, trials: Sequence[Trial], folder: Path, report: Report | None = None) -> Measurement:
        """Make trials ready; files go to `folder`. Raises ToolchainError."""

    def peak(self) -> Peak | None:
        """What this machine can do at best; None where that is not measured. Raises ToolchainError or PockError."""


Picks = Mapping[str, Choice]
"""Choices by `common.identity.identity` of the nodes they are for."""
