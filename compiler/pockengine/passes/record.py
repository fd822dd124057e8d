"""What a pass is: a named rewriting of a graph, and what it may ask beside the graph."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..ir import Graph, Node
from .streamed_embeddings import StreamedEmbedding

Claims = Callable[[Node], bool]
"""Whether the backend computes a composite whole: `Backend.claims`."""


def claims_nothing(node: Node) -> bool:
    """Of a backend that has every composite expanded."""
    return False


@dataclass(frozen=True, kw_only=True)
class Context:
    """What passes ask beside the graph.

    frozen   names of the parameters that no update changes
    claims   which composites stay whole
    streamed the frozen tables that stay in the weights file"""

    frozen: Collection[str] = frozenset()
    claims: Claims = claims_nothing
    streamed: Sequence[StreamedEmbedding] = ()


NOTHING = Context()
"""Of a graph about which nothing more is known."""


class Form(enum.Enum):
    """What holds of a graph from some pass on, so that those after it may take it for granted."""

    PRIMITIVES = "primitives"
    """Composites are expanded, but for those that the backend claims."""
    CANONICAL = "canonical"
    """What can be said in several ways is said in one, and computed once."""
    CHANNELS_LAST = "channels last"
    """Image operators are NHWC."""
    REGIONS = "regions"
    """Every elementwise, reduction and contraction node is in a region: nodes can be lowered."""
    WRITABLE = "writable"
    """A node makes every output, and one that may write there makes the new contents of every parameter and state; no
    node reads the old contents later."""
    DECIDED = "decided"
    """What was decided about several programs, or about the memory of one, is in the graph."""


C = TypeVar("C", bound=Context, contravariant=True)


@dataclass(frozen=True)
class Pass(Generic[C]):
    """One entry of a pipeline's lists.

    name     unique among all passes; the name of its dump
    apply    the rewriting; the same object where there is nothing to do
    line     before → after, for docs/design/compiler.md
    needs    what it takes for granted
    makes    what holds after it; such a pass cannot be left out, but for `instead`
    instead  what stands in its place where it is left out"""

    name: str
    apply: Callable[[Graph, C], Graph]
    line: str
    needs: tuple[Form, ...] = ()
    makes: Form | None = None
    instead: Pass[C] | None = None


def alone(apply: Callable[[Graph], Graph]) -> Callable[[Graph, Context], Graph]:
    """A rewriting that asks nothing beside the graph, as `Pass.apply`."""
    return lambda graph, context: apply(graph)
