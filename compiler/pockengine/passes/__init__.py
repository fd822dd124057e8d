"""Graph -> Graph functions. What runs in which order is the visible list PIPELINE."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from ..ir import Graph, Node, render, verify
from ..ops import expand_where, prune
from .chunks import chunk_rows, chunk_rows_finely
from .cleanup import cse, fold
from .decompress import decompress_inside
from .demand import only_demanded
from .factor import factor_gradients
from .fuse import fuse, separate
from .heads import heads_inside
from .layout import channels_last
from .masks import masks_as_bits
from .order import reorder
from .products import merge_products
from .prologues import compute_while_packing
from .recognise import recognise
from .recompute import recompute_elementwise
from .saving import save_least
from .simplify import simplify
from .sparse import push_scale, push_select, scale_gradient_from_weights
from .unfused import Missed, missed_fusions
from .winograd_marks import allow_winograd

Pass = Callable[[Graph], Graph]
Claims = Callable[[Node], bool]


def expand_composites(graph: Graph) -> Graph:
    """Write every composite in primitives.

    %y = silu(%x)   ->   %s = sigmoid(%x); %y = mul(%x, %s)
    """
    return expand_where(graph, lambda node: True)


def tidy(graph: Graph) -> Graph:
    """Simplify, then compute equal things once, then drop what is unused."""
    return prune(cse(simplify(graph)))


ALGEBRA: tuple[Pass, ...] = (
    expand_composites,
    tidy,
    heads_inside,
    merge_products,
    push_scale,
    tidy,
    scale_gradient_from_weights,
    push_select,
    tidy,
)
"""From what the user's model says to the least arithmetic that says the same."""

SHAPING: tuple[Pass, ...] = (
    chunk_rows,
    channels_last,
    allow_winograd,
    factor_gradients,
    tidy,
    save_least,
    masks_as_bits,
    fuse,
    compute_while_packing,
    decompress_inside,
    reorder,
)
"""From arithmetic to regions in the order in which they run."""


@dataclass(frozen=True)
class Pipeline:
    """Both lists of passes."""

    algebra: tuple[Pass, ...] = ALGEBRA
    shaping: tuple[Pass, ...] = SHAPING

    def sparing(self) -> Pipeline:
        """The pipeline that keeps the fewest bytes for the backward part: for steps that would not fit otherwise."""
        shaping = _replaced(self.shaping, chunk_rows, (chunk_rows_finely,))
        place = next(index for index, apply in enumerate(shaping) if apply in (masks_as_bits, fuse, separate))
        return Pipeline(self.algebra, (*shaping[:place], recompute_elementwise, *shaping[place:]))

    def without(self, name: str) -> Pipeline:
        """The pipeline with a pass left out, to see what it is worth; without `fuse`, each node is a region of its own.
        What others take for granted, canonical primitives and images channels last, cannot be left out."""
        found = next(apply for apply in self.algebra + self.shaping if apply.__name__ == name)
        if found in (expand_composites, tidy, channels_last):
            raise ValueError(f"nothing compiles without {name}")
        instead = (separate,) if found is fuse else ()
        return Pipeline(*(_replaced(passes, found, instead) for passes in (self.algebra, self.shaping)))


def _replaced(passes: tuple[Pass, ...], found: Pass, instead: tuple[Pass, ...]) -> tuple[Pass, ...]:
    return tuple(chosen for apply in passes for chosen in (instead if apply is found else (apply,)))


PIPELINE = Pipeline()


def optimise(
    graph: Graph,
    frozen: Collection[str],
    passes: tuple[Pass, ...] = ALGEBRA + SHAPING,
    dump: Path | None = None,
    claims: Claims = lambda node: False,
) -> Graph:
    """Run `passes` (constants folded before the first and after every `tidy`), verifying after each.

    With `dump`, the graph after each pass is written to `dump/NN_pass.txt`. Composites that `claims` are not expanded:
    the backend computes them whole."""
    graph = verify(fold(graph, frozen), "fold")
    for index, apply in enumerate(passes):
        before = graph
        if apply is expand_composites:
            graph = expand_where(graph, lambda node: not claims(node))
        else:
            graph = apply(graph)
        if graph is not before:
            verify(graph, apply.__name__)
        if apply is tidy:
            graph = verify(fold(graph, frozen), "fold")
        if dump is not None:
            dump.mkdir(parents=True, exist_ok=True)
            (dump / f"{index:02d}_{apply.__name__}.txt").write_text(render(graph))
    return graph


__all__ = [
    "ALGEBRA",
    "PIPELINE",
    "SHAPING",
    "Claims",
    "Missed",
    "Pass",
    "Pipeline",
    "allow_winograd",
    "channels_last",
    "chunk_rows",
    "chunk_rows_finely",
    "compute_while_packing",
    "cse",
    "decompress_inside",
    "expand_composites",
    "factor_gradients",
    "fold",
    "fuse",
    "heads_inside",
    "masks_as_bits",
    "merge_products",
    "missed_fusions",
    "only_demanded",
    "optimise",
    "push_scale",
    "push_select",
    "recognise",
    "recompute_elementwise",
    "reorder",
    "save_least",
    "scale_gradient_from_weights",
    "separate",
    "simplify",
    "tidy",
]
