"""What plans of one model have in common, kept from one to the next.

A graph never changes, so what passes made of it holds for as long as they are asked the same beside it. Of what a
recipe trains, evaluation and prediction depend on little: whether the parameters stay frozen that `fold` could compute
with. It is noted what was asked, and what is kept holds where the answers are the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from ..codegen.common.memo import Memo
from ..ir import Graph, Node
from ..passes import Context, Pass, optimise
from ..plan.pipeline import Planning
from ..plan.program import Lowered

MOST = 64
"""Results that are kept: those of about eight schemes."""
EACH = 8
"""Results of the same passes on one graph."""

T = TypeVar("T")
P = TypeVar("P", bound=Context)


class Kept:
    """Of the models that were planned last; for one thread."""

    def __init__(self, most: int = MOST) -> None:
        self._memo = Memo(most)

    def get(self, key: tuple[Hashable, ...], make: Callable[[], T]) -> T:
        """The result for everything that it depends on, made where there is none. The first element of a key says what
        it is a result of; graphs are themselves."""
        return self._memo.get(key, make)

    def optimised(self, graph: Graph, passes: tuple[Pass[P], ...], context: P, program: str) -> Graph:
        """What `optimise` gives; the same object where nothing is different that the passes asked for."""
        beside = (getattr(context, field.name) for field in fields(context) if field.name not in ("frozen", "lower"))
        lower = context.lower if isinstance(context, Planning) else None
        key = ("optimised", graph, passes, *map(_hashable, beside), lower.identity if lower else None)
        known = self._memo.get(key, list[_Optimised])
        found = next((one for one in known if one.holds(context.frozen)), None)
        if found is None:
            asked = _Asked(context.frozen)
            made = optimise(graph, passes, replace(context, frozen=asked), program=program)
            found = _Optimised(made, asked.answers, lower.known_of(made.nodes) if lower else {})
            known.insert(0, found)
            del known[EACH:]
        if lower:
            lower.learn(found.lowered)
        return found.graph


@dataclass(frozen=True)
class _Optimised:
    """A graph that passes made.

    answers  name of a parameter that they asked for -> whether it stays frozen
    lowered  the kernels of its nodes"""

    graph: Graph
    answers: Mapping[str, bool]
    lowered: Mapping[Node, Lowered]

    def holds(self, frozen: Collection[str]) -> bool:
        """Whether the passes would be told the same."""
        return all((name in frozen) == told for name, told in self.answers.items())


class _Asked(Collection[str]):
    """A collection that notes what it is asked for."""

    def __init__(self, known: Collection[str]) -> None:
        self._known = known
        self.answers: dict[str, bool] = {}

    def __contains__(self, name: object) -> bool:
        assert isinstance(name, str)
        return self.answers.setdefault(name, name in self._known)

    def __iter__(self) -> Iterator[str]:
        raise TypeError("what is kept depends on single names")

    def __len__(self) -> int:
        raise TypeError("what is kept depends on single names")


def _hashable(value: object) -> Hashable:
    return tuple(value) if isinstance(value, list) else value
