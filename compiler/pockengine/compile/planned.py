"""The fifth stage: planning. Every value of every program has its place in memory; machine code is made of this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..autodiff import Quantised
from ..codegen.backend import Backend
from ..generation import Decoder
from ..ir import DType, Graph, Value
from ..passes import StreamedEmbedding
from ..plan.budget import NONE, Recomputed
from ..plan.clipping import waiting_bytes
from ..plan.packed_weights import place_packed
from ..plan.program import Packing, Program
from ..plan.shared_spaces import Spaces
from ..plan.space import Space
from ..recipe import Recipe, Scheme, batch_of
from ..targets import Target
from .ranges import IntegerRange, integer_ranges
from .reduced import Counts
from .shaped import Shaped


@dataclass(frozen=True)
class Cycles:
    """About how long a training step takes, in cycles of the target.

    step       all of it
    computing  the same if nothing waited for the host's memory"""

    step: float
    computing: float

    def __add__(self, other: Cycles) -> Cycles:
        return Cycles(self.step + other.step, self.computing + other.computing)

    def __mul__(self, times: int) -> Cycles:
        return Cycles(self.step * times, self.computing * times)


@dataclass(frozen=True)
class Planned:
    """The planned programs over shared blocks of memory.

    imported         the model as it came
    backend          what lowered the nodes, with the choices it did that with
    model            what is trained: the imported one with adapters, its frozen weights quantised
    runtime_bytes    what the running program takes beside its blocks: told from the model
    clip_norm_bytes  of the arena, with `clip: {norm: …}`: what gradients take that wait for the norm of all of them
    recomputed       what it takes to keep to the memory allowed: forward nodes that run twice, products in strips
    quantised        how the quantised weights are stored
    packed           the frozen weights that lie in memory as panels
    rounded          the frozen weights of f32 that lie in memory in a format of 16 bits
    streamed         the frozen tables that stay in the weights file
    decoder          what generates tokens, where the recipe asks for it"""

    name: str
    imported: Graph
    model: Graph
    recipe: Recipe
    scheme: Scheme
    backend: Backend
    target: Target
    threads: int
    batch: int
    programs: Mapping[str, Program]
    spaces: Spaces
    counts: Counts
    inputs: tuple[Value, ...]
    runtime_bytes: int
    ranges: Mapping[str, IntegerRange] = field(default_factory=dict)
    clip_norm_bytes: int = 0
    recomputed: Recomputed = NONE
    quantised: tuple[Quantised, ...] = ()
    packed: Mapping[str, Packing] = field(default_factory=dict)
    rounded: Mapping[str, DType] = field(default_factory=dict)
    streamed: tuple[StreamedEmbedding, ...] = ()
    decoder: Decoder | None = None

    @property
    def arena_bytes(self) -> int:
        return max(program.plan.arena_bytes for program in self.programs.values())

    @property
    def lower_bound_bytes(self) -> int:
        return max(program.plan.lower_bound_bytes for program in self.programs.values())


def plan(shaped: Shaped, backend: Backend) -> Planned:
    """Give every value its place, frozen weights packed where all programs read them so; `backend` lowered the
    nodes."""
    graphs = shaped.reduced.graphs
    resolved, lowering = graphs.resolved, shaped.planning.lower
    request, recipe, spaces = resolved.request, resolved.recipe, Spaces(lowering.alignment, shaped.planning.offloaded)
    programs, packed = place_packed(shaped.programs, shaped.planning, spaces, request.passes.packing, request.dump)
    clip, waiting = recipe.optimizer.clip, 0
    if clip and clip.norm is not None:
        waiting = waiting_bytes(programs["train"], resolved.scheme.trained(), lowering.alignment)
    request.progress("plan", len(programs), len(programs))
    return Planned(
        name=request.name or resolved.model.name,
        imported=request.model,
        model=resolved.model,
        recipe=recipe,
        scheme=resolved.scheme,
        backend=backend,
        target=lowering.target,
        threads=lowering.threads,
        batch=batch_of(recipe, request.model),
        programs=programs,
        spaces=spaces,
        counts=shaped.reduced.counts,
        inputs=graphs.asked.inputs,
        ranges=integer_ranges(graphs.asked),
        runtime_bytes=lowering.runtime_bytes(request.model),
        clip_norm_bytes=waiting,
        recomputed=shaped.recomputed,
        quantised=resolved.quantised,
        packed=packed,
        rounded=dict(shaped.planning.rounded),
        streamed=graphs.streamed,
        decoder=graphs.decoder,
    )


def step_cycles(planned: Planned) -> Cycles:
    """About how long a planned training step takes, with all of its micro-batches. Where only `train` is planned, each
    counts like the last one, which updates too."""
    last = _cycles(planned, "train")
    others = _cycles(planned, "accumulate") if "accumulate" in planned.programs else last
    return last + others * (planned.recipe.accumulate - 1)


def _cycles(planned: Planned, program: str) -> Cycles:
    """Copies from the host's memory go on beside all else; state that lies there is read and written in its turn."""
    backend, target, threads = planned.backend, planned.target, planned.threads
    computing, copying = 0.0, 0.0
    for step in planned.programs[program].steps:
        cycles = backend.cost(step.lowered, target, threads)
        computing, copying = (computing, copying + cycles) if step.lowered.from_host else (computing + cycles, copying)
    return Cycles(max(computing + _state_cycles(planned, program), copying), computing)


def _state_cycles(planned: Planned, program: str) -> float:
    """What the link to the host's memory takes for state that is there; it goes both ways at once."""
    if planned.target.gpu is None or not planned.spaces.sizes[Space.HOST]:
        return 0.0
    places = planned.spaces.places
    changed = [value for value in planned.programs[program].graph.updates if (Space.STATE, value.name) in places]
    there = [value for value in changed if places[Space.STATE, value.name].space is Space.HOST]
    return sum(value.type.nbytes for value in there) / planned.target.gpu.link_bytes_per_cycle
