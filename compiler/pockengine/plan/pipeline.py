"""All lists of passes, those that planning runs on lowered nodes included."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import TypeVar

from ..ir import DType, Node
from ..passes import ALGEBRA, PASSES, PREPARING, SHAPING, SPARING, Context, Form, Pass
from ..passes.offload import copy_from_host
from ..passes.rematerialise import rematerialise
from .lowering import Lowering
from .peak_order import lower_peak
from .rewrites import copy_updates, read_packed


@dataclass(frozen=True, kw_only=True)
class Planning(Context):
    """What the passes of planning ask beside the graph.

    lower   the kernels of a node
    order   (node, whether it is the second run): the step with what is computed twice
    rounded  the frozen weights that lie in memory in 16 bits: (name, format)
    packed  names of the weights that lie in memory as panels
    offloaded  names of the parameters and states that lie in the host's memory"""

    lower: Lowering
    order: Sequence[tuple[Node, bool]] = ()
    rounded: Sequence[tuple[str, DType]] = ()
    packed: Collection[str] = ()
    offloaded: Collection[str] = ()


COPY_UPDATES = Pass[Planning](
    "copy_updates",
    lambda graph, planning: copy_updates(graph, planning.lower),
    "new contents that cannot be written in place, and outputs that no node makes, get a copy",
    (Form.REGIONS,),
    Form.WRITABLE,
)
COPY_FROM_HOST = Pass[Planning](
    "copy_from_host",
    lambda graph, planning: copy_from_host(graph, planning.offloaded),
    "a frozen weight that is offloaded comes from the host's memory for each node that reads it",
    (Form.REGIONS,),
)
LOWER_PEAK = Pass[Planning](
    "lower_peak",
    lambda graph, planning: lower_peak(graph, planning.lower, planning.lower.alignment),
    "an order with fewer bytes alive at once, where the search finds one",
    (Form.REGIONS,),
)
REMATERIALISE = Pass[Planning](
    "rematerialise",
    lambda graph, planning: rematerialise(graph, planning.order),
    "forward nodes run a second time where the backward part needs them, instead of being kept until then",
    (Form.REGIONS,),
    Form.DECIDED,
)
READ_PACKED = Pass[Planning](
    "read_packed",
    lambda graph, planning: read_packed(graph, planning.packed),
    "contractions find a frozen weight in panels, if all programs read it so",
    (Form.REGIONS,),
    Form.DECIDED,
)

PlanPasses = tuple[Pass[Planning], ...]

ORDERING: PlanPasses = (COPY_UPDATES, COPY_FROM_HOST, PASSES["reorder"], LOWER_PEAK)
"""Of lowered nodes: what makes them a program that can be placed."""

RECOMPUTING: PlanPasses = (REMATERIALISE, LOWER_PEAK)
"""Of a program that must take less memory."""

PACKING: PlanPasses = (READ_PACKED,)
"""Last, when it is known which weights lie packed."""

P = TypeVar("P", bound=Context)


@dataclass(frozen=True)
class Pipeline:
    """What runs on the way from the user's model to a planned program, list by list.

    preparing    on the model, before the gradient is built
    algebra      on each program: the least arithmetic
    shaping      on each program: regions
    sparing      in the place of `shaping` where a budget of memory asks for it
    ordering     on each program, lowered
    rounding     on each program, when it is known which weights lie rounded
    recomputing  on a program that still does not fit
    packing      on each program, last"""

    preparing: tuple[Pass[Context], ...] = PREPARING
    algebra: tuple[Pass[Context], ...] = ALGEBRA
    shaping: tuple[Pass[Context], ...] = SHAPING
    sparing: tuple[Pass[Context], ...] = SPARING
    ordering: PlanPasses = ORDERING
    rounding: PlanPasses = ()
    recomputing: PlanPasses = RECOMPUTING
    packing: PlanPasses = PACKING

    def __post_init__(self) -> None:
        for shaping in (self.shaping, self.sparing):
            made: set[Form] = set()
            whole = (self.preparing, self.algebra, shaping, self.ordering, self.rounding)
            for one in chain[Pass[Planning]](*whole, self.recomputing, self.packing):
                missing = set(one.needs) - made
                if missing:
                    raise ValueError(f"{one.name} needs {', '.join(form.value for form in missing)} before it")
                made |= {one.makes} if one.makes else set()

    def passes(self) -> dict[str, Pass[Planning]]:
        """Every pass of any list by its name, in the order in which they first run."""
        return {one.name: one for field in fields(self) for one in getattr(self, field.name)}

    def without(self, name: str) -> Pipeline:
        """The pipeline with a pass left out, to see what it is worth; without `fuse`, each node is a region of its own.
        Raises ValueError for one that others take for granted (it makes a `Form`), and KeyError for an unknown one."""
        found = self.passes()[name]
        if found.makes and not found.instead:
            raise ValueError(f"nothing compiles without {name}")
        return Pipeline(*(_replaced(getattr(self, field.name), name) for field in fields(self)))

    def removable(self) -> tuple[str, ...]:
        """The names of the passes that can be left out."""
        return tuple(name for name, one in self.passes().items() if not one.makes or one.instead)


def _replaced(passes: tuple[Pass[P], ...], name: str) -> tuple[Pass[P], ...]:
    """The list with what stands in for the pass called `name`, or with nothing in its place."""
    chosen = (one.instead if one.name == name else one for one in passes)
    return tuple(one for one in chosen if one is not None)


PIPELINE = Pipeline()
