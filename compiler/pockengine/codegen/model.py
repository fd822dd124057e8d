"""What a backend makes an artifact's program of: planned programs, and where named tensors lie.

Knows no backend and no files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir import DType, TensorType
from ..plan.program import Location, Packing, Program
from ..plan.space import Space
from ..targets import ALIGNMENT

IN_FILE = Location(Space.FILE, 0)
"""The place of a table that is not in memory."""


@dataclass(frozen=True)
class Tensor:
    """A named tensor outside the arena. `fill` is what optimizer state starts from; `limit`, when not 0, is what every
    integer of an input must stay below, but for `ignored` (0: none); `average_of` is the index of the parameter
    whose moving average a state is; `packing` says how a frozen weight lies in memory, `rounded` in which 16-bit format
    one of f32 does; `target` says who reads an input: `not_target`, `target` or `sample_weight`."""

    name: str
    type: TensorType
    location: Location
    trained: bool = False
    fill: float = 0.0
    limit: int = 0
    average_of: int | None = None
    ignored: int = 0
    target: str = "not_target"
    packing: Packing | None = None
    rounded: DType | None = None


@dataclass(frozen=True)
class StreamedRows:
    """Before a run, `rows` gets for each of the integers at `indices` that row of the parameter number `table`."""

    table: int
    indices: Location
    type: TensorType
    rows: Location


@dataclass(frozen=True)
class Generation:
    """What the program `generate` reads: the token i64 [1, 1], and its position i64 [1], each below its limit. Its
    output `logits` has the scores of the token that follows."""

    token: Tensor
    position: Tensor


@dataclass(frozen=True)
class Model:
    """Everything that an artifact's program knows of its model. `space_bytes` gives the size of each block of memory
    by name; the arena's is the largest program's. Blocks, and values in them, begin at multiples of `alignment` bytes.
    `accumulate_steps` is the number of micro-batches of an optimizer
    step, `norm_batches` that of the batches which the program `norms` sees before training."""

    name: str
    target: str
    threads: int
    batch: int
    params: tuple[Tensor, ...]
    states: tuple[Tensor, ...]
    consts: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    programs: Mapping[str, Program]
    space_bytes: Mapping[Space, int]
    predicted_peak_bytes: int
    accumulate_steps: int = 1
    norm_batches: int = 0
    last_batch: str = "wrap"
    perplexity: bool = False
    streamed: tuple[StreamedRows, ...] = ()
    alignment: int = ALIGNMENT
    generation: Generation | None = None
