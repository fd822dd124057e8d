"""What one scheme's training step takes in each segment, read off its program before offsets are given.

Time runs through the segments forth, then back, then to the end, where updates run that waited. What a segment makes in
the forward part and the backward part reads is *saved*; all else alive while it runs is its *own*.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...compile import Request, reduced
from ...compile.shaped import Shaped, shape
from ...ir import Graph, Node, RegionKind
from ...ops import is_view
from ...passes import optimise
from ...plan.lives import Lives, Work, base_of, lives_of, work_of
from ...plan.lowering import Lowering
from ...plan.packed_weights import agreed
from ...plan.space import aligned
from .segments import Bools, Floats, Ints, Segments

FORWARD = ("made", "own", "cycles", "consts")
"""Figures of a segment in the forward part, in bytes and cycles:

made    what it makes and the backward part reads
own     the most alive while its nodes run, less what earlier segments made for the backward part
consts  constants of the whole step that its nodes are the first to read"""

BACKWARD = ("own", "cycles", "waiting")
"""The same in the backward part, and

waiting  what its backward nodes make and an update at the end reads, which is not counted in what is its own"""

Sizes = Mapping[str, int]
"""Name of what lies in a block -> its aligned bytes."""


@dataclass(frozen=True, eq=False)
class Observed:
    """What a training step takes.

    forward   [segments, FORWARD]
    backward  [segments, BACKWARD]
    runs      [segments, 2]: whether any of its nodes run in the forward part, and in the backward part
    end       the most alive at the end, less what waits; 0 where nothing runs there"""

    forward: Floats
    backward: Floats
    runs: Bools
    end: float
    params: Sizes
    states: Sizes
    inputs: Sizes

    @property
    def arena(self) -> float:
        """The most that is alive at once."""
        return arena_of(self.forward, self.backward, self.runs, self.end)


def arena_of(forward: Floats, backward: Floats, runs: Bools, end: float) -> float:
    """The most that is alive at once, from the figures of all segments."""
    return float(moments_of(forward, backward, runs, end).max())


def moments_of(forward: Floats, backward: Floats, runs: Bools, end: float) -> Floats:
    """The most that is alive in each segment's forward part, then in each one's backward part, then at the end; 0 where
    nothing runs: [2 * segments + 1]."""
    made, waiting = forward[:, 0], backward[:, 2]
    saved = np.cumsum(made) - made
    waits = np.cumsum(waiting[::-1])[::-1] - waiting
    forth, back = forward[:, 1] + saved, backward[:, 0] + saved + waits
    return np.concatenate([forth * runs[:, 0], back * runs[:, 1], [end + waiting.sum()]])


def observe(request: Request, segments: Segments, lowering: Lowering) -> Observed:
    """Shape a request's training step, and read off what each segment takes. Raises what planning raises."""
    shaped = shape(reduced(request), lowering)
    graph = shaped.programs["train"]
    work = work_of(graph, lowering, lowering.alignment)
    graph = _packed(shaped, graph, int(_live(work, _lives(work)).max(initial=0)))
    work = work_of(graph, lowering, lowering.alignment)
    clip = request.recipe.optimizer.clip
    places = _places(work.nodes, segments, waits=clip is not None and clip.norm is not None)
    made, own, waiting = _bytes(work, places, len(segments))
    forth, back = slice(len(segments)), slice(-2, len(segments) - 1, -1)
    cycles, consts = _cycles(work.nodes, segments, lowering), _consts(graph, segments, lowering.alignment)
    ran = np.isin(np.arange(len(own)), places)
    return Observed(
        np.column_stack((made[forth], own[forth], cycles[:, 0], consts)),
        np.column_stack((own[back], cycles[:, 1], waiting[back])),
        np.column_stack((ran[forth], ran[back])),
        float(own[-1]) if ran[-1] else 0.0,
        *(
            {value.name: aligned(value.type.nbytes, lowering.alignment) for value in values}
            for values in (graph.params, graph.states, graph.inputs)
        ),
    )


def _packed(shaped: Shaped, graph: Graph, arena: int) -> Graph:
    """The program with its frozen weights in panels, as `plan.packed_weights` places it."""
    request = shaped.reduced.graphs.resolved.request
    sizes = {value.name: value.type.nbytes for value in graph.params}
    packings = agreed(shaped.programs, shaped.planning.frozen, shaped.planning.lower)
    fitting = {name: packing for name, packing in packings.items() if sizes[name] <= arena}
    return optimise(graph, request.passes.packing, replace(shaped.planning, packed=fitting), program="train")


def _lives(work: Work) -> Lives:
    return lives_of(work.operations, work.sizes, work.kept)


def _live(work: Work, lives: Lives) -> Ints:
    """Bytes of the arena that are alive at each step."""
    change = np.zeros(len(work.operations) + 1, np.int64)
    for value, first in lives.first.items():
        change[first] += work.sizes[value]
        change[lives.last[value] + 1] -= work.sizes[value]
    return np.cumsum(change[:-1]) + np.array([operation.workspace for operation in work.operations], np.int64)


def _places(nodes: Sequence[Node], segments: Segments, waits: bool) -> Ints:
    """[steps]: where in time each node runs: segments forth, then back, then the end where updates wait for it.

    The contractions that run in the order of time tell it, as many as possible; others may run long before or after
    those around them."""
    count = len(segments)
    last = max((step for step, node in enumerate(nodes) if node.phase == "backward"), default=len(nodes))
    told: list[tuple[int, int]] = []
    for step, node in enumerate(nodes):
        segment = segments.of.get(node.origin)
        if segment is not None and _tells_time(node) and not (waits and step > last):
            told.append((step, segment if node.phase == "forward" else 2 * count - 1 - segment))
    places = np.zeros(len(nodes), np.int64)
    for step, place in _in_order(told):
        places[step:] = place
    if waits:
        places[last + 1 :] = 2 * count
    return places


def _in_order(told: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of (step, place) in which places do not fall."""
    lowest: list[int] = []  # of each length, the last place of the part that ends lowest
    ends: list[int] = []  # the same, as numbers of what was told
    before: list[int] = []
    for number, (_, place) in enumerate(told):
        length = bisect_right(lowest, place)
        before.append(ends[length - 1] if length else -1)
        lowest[length : length + 1], ends[length : length + 1] = [place], [number]
    found, number = [], ends[-1] if ends else -1
    while number >= 0:
        found.append(told[number])
        number = before[number]
    return found[::-1]


def _tells_time(node: Node) -> bool:
    return node.region_kind in (RegionKind.CONTRACTION, RegionKind.GRADIENTS) or node.op.startswith("attention")


def _bytes(work: Work, places: Ints, count: int) -> tuple[Floats, Floats, Floats]:
    """[2 segments + 1] each, as time goes: what is made for the backward part, own bytes, what waits for the end."""
    lives = _lives(work)
    made, waiting = np.zeros(2 * count + 1), np.zeros(2 * count + 1)
    for value, first in lives.first.items():
        begin, end = places[first], places[lives.last[value]]
        if begin < count <= end:
            made[begin] += work.sizes[value]
        elif end == 2 * count > begin:
            waiting[begin] += work.sizes[value]
    saved = np.cumsum(made) - made
    saved[count : 2 * count] = saved[:count][::-1]
    saved[-1] = 0
    own = np.full(2 * count + 1, -np.inf)
    np.maximum.at(own, places, _live(work, lives) - (saved + np.cumsum(waiting) - waiting)[places])
    return made, np.where(np.isfinite(own), own, 0.0), waiting


def _cycles(nodes: Sequence[Node], segments: Segments, lowering: Lowering) -> Floats:
    """[segments, 2]: cycles of forward nodes, and of all others. Those of no segment count to the last."""
    cycles = np.zeros((len(segments), 2))
    for node in nodes:
        cycles[segments.of.get(node.origin, len(segments) - 1), int(node.phase != "forward")] += lowering.cycles(node)
    return cycles


def _consts(graph: Graph, segments: Segments, alignment: int) -> Floats:
    """[segments]: bytes of the constants that each is the first to read; equal ones lie in memory once."""
    found, base = np.zeros(len(segments)), base_of(graph)
    known: set[tuple[str, tuple[int, ...], bytes]] = set()
    for node in graph.nodes:
        for value in () if is_view(node) else node.inputs:
            array = graph.consts.get(base[value])
            if array is None:
                continue
            key = array.dtype.str, array.shape, np.asarray(array, order="C").tobytes()
            if key not in known:
                known.add(key)
                found[segments.of.get(node.origin, len(segments) - 1)] += aligned(array.nbytes, alignment)
    return found
