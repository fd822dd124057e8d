"""The passes, and the order in which they run. What planning rewrites is in `plan/pipeline.py`."""

from __future__ import annotations

from pathlib import Path

from .. import debug
from ..ir import Graph, render
from ..ops import composites_of, expand, prune
from .chunks import chunk_rows, chunk_rows_finely, chunk_rows_widely
from .cleanup import cse, fold
from .decompress import decompress_all_inside, decompress_inside
from .demand import only_demanded
from .factor import factor_gradients
from .fuse import fuse, fuse_apart, separate
from .heads import heads_inside
from .layout import channels_last
from .masks import masks_as_bits
from .moves import move_inside
from .order import reorder
from .products import merge_products
from .prologues import compute_while_packing
from .recognise import recognise
from .recompute import recompute_elementwise
from .record import NOTHING, C, Context, Form, Pass, alone
from .saving import save_least
from .simplify import simplify
from .sparse import push_scale, push_select, scale_gradient_from_weights
from .stored import widen_where_read
from .streamed_embeddings import stream_embeddings
from .verify import verify, verify_forms
from .winograd_marks import allow_winograd


def expand_composites(graph: Graph, context: Context) -> Graph:
    """Write every composite in primitives that the backend does not claim.

    %y = silu(%x)   ->   %s = sigmoid(%x); %y = mul(%x, %s)
    """
    while chosen := [node for node in composites_of(graph) if not context.claims(node)]:
        graph = expand(graph, chosen)
    return graph


def tidy(graph: Graph, context: Context = NOTHING) -> Graph:
    """Simplify, compute equal things once, drop what is unused, compute what is known."""
    return fold(prune(cse(simplify(graph))), context.frozen)


PRIMITIVES = (Form.PRIMITIVES,)

_EACH: tuple[Pass[Context], ...] = (
    Pass(
        "simplify",
        alone(simplify),
        "canonical forms: `x * 1` → `x`, a transposition of a transposition → one, a `pad` → the convolution's own",
    ),
    Pass("recognise", alone(recognise), "attention that the model spells out → `attention`"),
    Pass(
        "only_demanded",
        alone(only_demanded),
        "slices move before what computes the tensor: rows that nobody reads are not computed",
    ),
    Pass(
        "stream_embeddings",
        lambda graph, context: stream_embeddings(graph, context.streamed),
        "the rows of a large frozen embedding become an input; the table stays in the weights file",
        makes=Form.DECIDED,
    ),
    Pass(
        "fold",
        lambda graph, context: fold(graph, context.frozen),
        "what depends on constants alone, and on parameters that stay frozen while the result is small → a constant",
    ),
    Pass(
        "expand_composites",
        expand_composites,
        "`silu(x)` → `mul(x, sigmoid(x))`, but for what the backend claims",
        makes=Form.PRIMITIVES,
    ),
    Pass(
        "tidy",
        tidy,
        "`simplify`, equal things once, nothing unused, then `fold`",
        makes=Form.CANONICAL,
    ),
    Pass(
        "heads_inside",
        alone(heads_inside),
        "an attention reads and writes `[batch, time, heads, depth]`, as projections leave and find it, without "
        "transposes",
    ),
    Pass(
        "merge_products",
        alone(merge_products),
        "the thin weight gradients of a sequence's steps become one product",
        PRIMITIVES,
    ),
    Pass(
        "push_scale",
        alone(push_scale),
        "a frozen norm's scale moves from the image gradient onto the weights",
        PRIMITIVES,
    ),
    Pass(
        "scale_gradient_from_weights",
        alone(scale_gradient_from_weights),
        "the scale's own gradient comes from the weight gradient, so the convolution's output is not kept",
        PRIMITIVES,
    ),
    Pass(
        "push_select",
        alone(push_select),
        "a channel selection moves through the weight gradient down to the saved activation, and into the forward part",
        PRIMITIVES,
    ),
    Pass(
        "chunk_rows",
        alone(chunk_rows),
        "logits of a large vocabulary become chunks of rows, each down to its loss and gradients before the next",
        PRIMITIVES,
    ),
    Pass(
        "chunk_rows_finely", alone(chunk_rows_finely), "the same with smaller chunks, of smaller products", PRIMITIVES
    ),
    Pass(
        "channels_last",
        alone(channels_last),
        "image operators become NHWC; the layout of all around them is a minimum cut: the fewest bytes transposed",
        PRIMITIVES,
        Form.CHANNELS_LAST,
    ),
    Pass(
        "allow_winograd",
        alone(allow_winograd),
        "3 x 3 convolutions of stride 1, and their input gradients, may be computed with fewer multiplications",
    ),
    Pass(
        "factor_gradients",
        alone(factor_gradients),
        "what only depends on forward values is multiplied before the gradient comes: `(dy · a) · b` → `dy · (a · b)`",
        PRIMITIVES,
    ),
    Pass(
        "save_least",
        alone(save_least),
        "elementwise nodes between the two parts run in the one that leaves fewer bytes to keep, by a minimum cut: a "
        "mask for its activation, the derivative of a GELU for what it is made of",
        PRIMITIVES,
    ),
    Pass(
        "widen_where_read",
        alone(widen_where_read),
        "whoever reads a parameter that is stored in 16 bits widens it anew: nothing wide of it is kept",
        PRIMITIVES,
    ),
    Pass(
        "masks_as_bits",
        alone(masks_as_bits),
        "a mask that waits for elementwise nodes of the backward part does so as bits, eight to a byte",
        PRIMITIVES,
    ),
    Pass(
        "recompute_elementwise",
        alone(recompute_elementwise),
        "the fewest bytes are kept for the backward part; elementwise nodes make the rest again where it is read",
        PRIMITIVES,
    ),
    Pass(
        "separate",
        alone(separate),
        "each node becomes a region of its own",
        (Form.PRIMITIVES, Form.CHANNELS_LAST),
        Form.REGIONS,
    ),
    Pass(
        "compute_while_packing",
        alone(compute_while_packing),
        "elementwise regions that one contraction alone reads become its prologue: the packer of that operand computes "
        "them, and the tensor never exists",
        (Form.REGIONS,),
    ),
    Pass(
        "decompress_inside",
        alone(decompress_inside),
        "a contraction reads a weight of 16 bits or fewer itself, block by block",
        (Form.REGIONS,),
    ),
    Pass(
        "reorder",
        alone(reorder),
        "an update runs as soon as its gradient is there and the old contents have no reader left",
    ),
)
_SEPARATE = next(record for record in _EACH if record.name == "separate")
_REGIONAL = (Form.PRIMITIVES, Form.CHANNELS_LAST)
_FUSING: tuple[Pass[Context], ...] = (
    Pass("fuse", alone(fuse), "neighbours become regions", _REGIONAL, Form.REGIONS, _SEPARATE),
    Pass(
        "fuse_apart",
        alone(fuse_apart),
        "neighbours become regions of at most one contraction",
        _REGIONAL,
        Form.REGIONS,
        _SEPARATE,
    ),
)

_ELSEWHERE: tuple[Pass[Context], ...] = (
    Pass("chunk_rows_widely", alone(chunk_rows_widely), "the same with larger chunks", PRIMITIVES),
    Pass(
        "decompress_all_inside",
        alone(decompress_all_inside),
        "the same of activations in fewer bits",
        (Form.REGIONS,),
    ),
    Pass(
        "move_inside",
        alone(move_inside),
        "elementwise regions compute with what is transposed, sliced, padded or joined where they read it",
        (Form.REGIONS,),
    ),
)
"""Of other backends' lists than the usual one."""

PASSES = {record.name: record for record in (*_EACH, *_FUSING, *_ELSEWHERE)}
"""Every pass of this package by its name."""


def _listed(*names: str) -> tuple[Pass[Context], ...]:
    return tuple(PASSES[name] for name in names)


PREPARING = _listed("simplify", "recognise", "only_demanded")
"""Of the user's model, before the gradient is built."""

ALGEBRA = _listed(
    "stream_embeddings",
    "fold",
    "expand_composites",
    "tidy",
    "heads_inside",
    "merge_products",
    "push_scale",
    "tidy",
    "scale_gradient_from_weights",
    "tidy",
    "push_select",
    "tidy",
)
"""From what the user's model says to the least arithmetic that says the same."""

SHAPING = _listed(
    "chunk_rows",
    "channels_last",
    "allow_winograd",
    "factor_gradients",
    "tidy",
    "save_least",
    "widen_where_read",
    "masks_as_bits",
    "fuse",
    "compute_while_packing",
    "decompress_inside",
    "reorder",
)
"""From arithmetic to regions in the order in which they run."""

SPARING = _listed(
    "chunk_rows_finely",
    "channels_last",
    "allow_winograd",
    "factor_gradients",
    "tidy",
    "save_least",
    "recompute_elementwise",
    "widen_where_read",
    "masks_as_bits",
    "fuse",
    "compute_while_packing",
    "decompress_inside",
    "reorder",
)
"""The same with the fewest bytes kept for the backward part: for steps that would not fit otherwise."""


def optimise(
    graph: Graph, passes: tuple[Pass[C], ...], context: C, dump: Path | None = None, program: str = "graph"
) -> Graph:
    """Run `passes`, verifying before the first and after each, and after the last the forms that were needed or made.
    A pass that is listed again leaves alone what it made itself, if no other has changed it.

    With `dump`, the graph after each pass is written to `dump/NN_name.txt`. `program` is what `POCK_DEBUG` calls the
    graph: the program that it becomes. Raises VerifyError for a pass that breaks
    the graph."""
    verify(graph)
    forms, made = set[Form](), dict[str, Graph]()
    for index, one in enumerate(passes):
        before, watch = graph, debug.Watch()
        if made.get(one.name) is not graph:
            made[one.name] = graph = one.apply(graph, context)
        forms |= {*one.needs} if one.makes is None else {*one.needs, one.makes}
        if graph is not before:
            verify(graph, one.name, set(before.nodes))
        if debug.shows(debug.Level.SIZES):
            _say(f"{program}: {one.name}", before, graph, watch)
        if dump is not None:
            dump.mkdir(parents=True, exist_ok=True)
            (dump / f"{index:02d}_{one.name}.txt").write_text(render(graph))
    verify_forms(graph, forms, context, f"after {passes[-1].name}" if passes else "")
    return graph


def _say(what: str, before: Graph, graph: Graph, watch: debug.Watch) -> None:
    """What a pass made of a graph: `what` names the program and the pass."""
    nbytes = sum(value.type.nbytes for node in graph.nodes for value in node.outputs)
    debug.say(f"{what}: {len(before.nodes)} -> {len(graph.nodes)} nodes, {nbytes} bytes of values, {watch}")
    if graph is not before and debug.shows(debug.Level.GRAPHS):
        debug.say(render(graph))
