"""What goes to the host's memory first, where a step leaves there no more than it has to.

A copy of a frozen weight goes on beside the kernels, so it costs nothing until all of them together take longer than
these; state is read and written in its turn. Copies hide best behind all of a step, so weights that are read equally
often are taken from all over it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..ir import Graph
from ..passes.offload import FROM_HOST, copy_from_host
from ..plan.lives import base_of
from ..plan.space import aligned
from .planned import Planned, step_cycles


@dataclass(frozen=True)
class Movable:
    """A parameter or state that may lie in the host's memory.

    nbytes  that it takes of the memory in which programs run
    beside  bytes that the link carries in a step, beside the kernels
    alone   bytes that it carries while kernels wait for them"""

    name: str
    nbytes: int
    beside: int
    alone: int

    @property
    def pace(self) -> tuple[float, float]:
        """The bytes that the link carries for each that is freed."""
        return self.beside / self.nbytes, self.alone / self.nbytes


def movables(planned: Planned, names: Collection[str]) -> list[Movable]:
    """What of these names a step reads, in the order in which it does; `planned` has nothing in the host's memory."""
    copies, changes = Counter[str](), Counter[str]()
    for kind, times in (("train", 1), ("accumulate", planned.recipe.accumulate - 1)):
        if times and kind in planned.programs:
            graph = planned.programs[kind].graph
            for name in _copies(graph, names):
                copies[name] += times
            for name in (value.name for value in graph.updates if value.name in names):
                changes[name] += times
    train = planned.programs["train"].graph
    first = {name: position for position, name in reversed([*enumerate(_copies(train, names))])}
    values = {value.name: value for value in (*train.params, *train.states) if value.name in names}
    found = [
        Movable(
            name,
            aligned(value.type.nbytes, planned.spaces.alignment),
            copies[name] * value.type.nbytes,
            changes[name] * value.type.nbytes,
        )
        for name, value in values.items()
    ]
    return sorted(found, key=lambda one: first.get(one.name, -1))


def _copies(graph: Graph, names: Collection[str]) -> list[str]:
    """Of what each copy from the host's memory is, in order."""
    there = copy_from_host(graph, names)
    base = base_of(there)
    return [base[node.inputs[0]].name for node in there.nodes if FROM_HOST in node.attrs]


def in_turn(planned: Planned, names: Collection[str]) -> list[Movable]:
    """The same in the order in which they are moved: always what makes the step least longer for the bytes it frees,
    then what the link carries least for."""
    gpu = planned.target.gpu
    assert gpu is not None, "only a GPU has a host"
    groups: dict[tuple[float, float], list[Movable]] = {}
    for one in movables(planned, names):
        groups.setdefault(one.pace, []).append(one)
    queues = [_spread(groups[pace]) for pace in sorted(groups, key=sum)]
    computing, beside, found = step_cycles(planned).computing, 0.0, list[Movable]()

    def costs(queue: list[Movable]) -> tuple[float, float]:
        """Of the next one: cycles that the step takes longer, and bytes of the link, for each byte."""
        one = queue[-1]
        waits, copied = computing + one.alone / per_cycle, beside + one.beside / per_cycle
        longer = max(waits, copied) - max(computing, beside)
        return longer / one.nbytes, sum(one.pace)

    per_cycle = gpu.link_bytes_per_cycle
    while queues:
        queue = min(queues, key=costs)
        one = queue.pop()
        found.append(one)
        computing, beside = computing + one.alone / per_cycle, beside + one.beside / per_cycle
        queues = [queue for queue in queues if queue]
    return found


def _spread(ordered: Sequence[Movable]) -> list[Movable]:
    """To be taken from the end: the last one of all first, and however many then lie evenly among all (places by their
    digits from behind). Before the first nothing is computed, behind which its copy could hide."""
    digits = max(1, (len(ordered) - 1).bit_length())
    places = sorted(range(len(ordered)), key=lambda place: f"{place:0{digits}b}"[::-1], reverse=True)
    return [ordered[-1 - place] for place in places]


def enough(waiting: Sequence[Movable], nbytes: int) -> int:
    """How many of these, from the first on, free so many bytes: all of them where they do not."""
    freed = 0
    for count, one in enumerate(waiting, 1):
        freed += one.nbytes
        if freed >= nbytes:
            return count
    return len(waiting)
