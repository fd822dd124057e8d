"""The program of one token: the model narrowed to one sample and one position, keys and values remembered.

Every value that attention needs of all positions is a state [1, …, time, …], a cache, of which a run replaces the part
of its position. What lies behind the position is masked by the model itself, as in training: that is what makes a model
causal, and is tried on numbers here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import interp
from ..errors import RecipeError
from ..ir import Builder, DType, Graph, TensorType, Value, substitute, verify
from ..ops import Emitter, composites_of, expand, get, prune
from .inputs import IDS, of_one_document
from .lines import Line
from .narrowing import Narrowing, narrowed, split_axis, step_shape

TOKEN, POSITION = "generate.token", "generate.position"
"""The inputs of the program: the token i64 [1, 1] and where it stands, i64 [1]."""
LOGITS = "logits"
"""Its output: the scores f32 [1, 1, vocabulary] of the token that follows."""

_BATCH, _TIME = Line(0), Line(1)
_NONE = "'generate' needs a causal language model"
_MOST_FOLDED = 64 << 20
_MOST_TRIED = 50_000_000_000
"""Operations of the forward pass, above which nothing is tried on numbers."""
_TRIED = 4
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Decoder:
    """The program, and how many positions its caches have."""

    graph: Graph
    context: int

    @property
    def cache_bytes(self) -> int:
        """What the caches take."""
        return sum(value.type.nbytes for value in self.graph.states)


def decoder_of(model: Graph) -> Decoder:
    """From a model of sequences, with inputs [batch, time] and an output [batch, time, vocabulary]; positions count
    from 0, and nothing is padding. Raises RecipeError or UnsupportedOperatorError where it is no causal language
    model."""
    plain, ids, name = _of_ids(model)
    batch, time = ids.type.shape
    single = _folded(_expanded(plain))
    if batch > 1:
        how = Narrowing(batch, {ids: _BATCH}, _first, None, f"{_NONE}, whose samples do not depend on each other", str)
        single = _folded(narrowed(single, how, {name: _BATCH}))
    (ids,) = single.inputs
    run = _Positions(time)
    why = f"{_NONE}, in which tokens meet in attention alone"
    how = Narrowing(time, {ids: _TIME}, run.pick, run.remember, why, lambda _: TOKEN)
    graph = narrowed(single, how, {name: _TIME})
    if POSITION not in {value.name for value in graph.inputs}:
        graph = graph.with_(inputs=(*graph.inputs, Value(POSITION, _POSITION_TYPE)))
    graph = graph.with_(outputs={LOGITS: graph.outputs[name]})
    decoder = Decoder(verify(prune(graph), "generate"), time)
    _try(single, name, decoder)
    return decoder


_POSITION_TYPE = TensorType(DType.I64, (1,))


def _of_ids(model: Graph) -> tuple[Graph, Value, str]:
    """The model of token ids alone, the input that has them, and the name of its scores."""
    scores = {name: value for name, value in model.outputs.items() if value.type.rank == 3}
    name = LOGITS if LOGITS in scores else next(iter(scores), "")
    fixed = {value: of_one_document(value.name, value.type) for value in model.inputs}
    consts = {value: array for value, array in fixed.items() if array is not None}
    builder = Builder.extend(model)
    mapping = {value: builder.const(array) for value, array in consts.items()}
    builder.inputs = [value for value in model.inputs if value not in mapping]
    builder.nodes = [substitute(node, mapping) for node in model.nodes]
    builder.outputs = {name: model.outputs[name]} if name else dict(model.outputs)
    graph = prune(builder.finish())
    read = {value for node in graph.nodes for value in node.inputs}
    given = [value for value in graph.inputs if value in read]
    if len(given) == 1 and name:
        (ids,) = given
        shape = ids.type.shape
        if not ids.type.dtype.is_float and len(shape) == 2 and scores[name].type.shape[:2] == shape:
            return graph.with_(inputs=(ids,)), ids, name
    what = ", ".join(f"'{value.name}' {value.type}" for value in given) or "nothing"
    made = f"'{name}' {scores[name].type}" if name else "no scores [batch, time, vocabulary]"
    raise RecipeError(f"{_NONE}: token ids such as '{IDS}' [batch, time] alone; this model reads {what}, makes {made}")


def _expanded(graph: Graph) -> Graph:
    """Without composites: attention and norms as the products and sums they are."""
    while chosen := composites_of(graph):
        graph = expand(graph, chosen)
    return graph


def _folded(graph: Graph) -> Graph:
    """With what depends on constants alone, masks and angles of positions, as constants."""
    builder = Builder(graph.name)
    builder.adopt_sources(graph)
    known = dict(graph.consts)
    for node in graph.nodes:
        size = sum(value.type.nbytes for value in node.outputs)
        if size <= _MOST_FOLDED and all(value in known for value in node.inputs):
            found = interp.run_node(node, [known[value] for value in node.inputs])
            made = {v: np.asarray(a, v.type.dtype.numpy) for v, a in zip(node.outputs, found, strict=True)}
            known |= made
            builder.consts |= made
        else:
            builder.keep(node)
    builder.outputs = dict(graph.outputs)
    return prune(builder.finish())


def _first(e: Emitter, value: Value, line: Line) -> Value:
    """The part of the first sample."""
    size = value.type.shape[line.axis] // line.inner
    wide, axis = split_axis(e, value, line, size)
    stops = tuple(1 if one == axis else extent for one, extent in enumerate(wide.type.shape))
    rank = wide.type.rank
    part = e.op("slice", wide, starts=(0,) * rank, stops=stops, steps=(1,) * rank)
    return e.reshape(part, step_shape(value, line, size))


class _Positions:
    """What the program of one token does with values of all positions."""

    def __init__(self, time: int) -> None:
        self.time = time
        self._here: dict[tuple[int, int], Value] = {}
        self._position: Value | None = None
        self._caches = 0

    def pick(self, e: Emitter, value: Value, line: Line) -> Value:
        """The part of the present position."""
        wide, axis = split_axis(e, value, line, self.time)
        part = e.op("gather", wide, self._given(e), axis=axis)
        return e.reshape(part, step_shape(value, line, self.time))

    def remember(self, e: Emitter, value: Value, line: Line, step: Value) -> Value:
        """The cache of a value, with the present step in its place."""
        cache = e.builder.state(f"generate.cache.{self._caches}", value.type)
        self._caches += 1
        key = value.type.rank, line.axis
        if key not in self._here:
            shape = tuple(self.time if axis == line.axis else 1 for axis in range(value.type.rank))
            numbers = e.const(np.arange(self.time, dtype=np.int64).reshape(shape))
            position = e.reshape(self._given(e), (1,) * value.type.rank)
            self._here[key] = e.op("equal", numbers, position)
        new = e.where(self._here[key], step, cache)
        e.builder.updates[cache] = new
        return new

    def _given(self, e: Emitter) -> Value:
        if self._position is None:
            self._position = Value(POSITION, _POSITION_TYPE)
            e.builder.inputs.append(self._position)
        return self._position


def _try(single: Graph, name: str, decoder: Decoder) -> None:
    """Raises RecipeError where scores of the first tokens depend on those that follow. Large models are not tried, nor
    models whose weights are not there."""
    types = [([v.type for v in node.inputs], [v.type for v in node.outputs], node) for node in single.nodes]
    operations = sum(get(node.op).cost(inputs, outputs, node.attrs) for inputs, outputs, node in types)
    if operations > _MOST_TRIED or any(value.name not in single.data for value in single.params):
        return
    (ids,) = single.inputs
    highest = single.outputs[name].type.shape[2]
    tokens = np.random.default_rng(0).integers(0, highest, ids.type.shape).astype(ids.type.dtype.numpy)
    whole = interp.evaluate(single, {ids.name: tokens})[name]
    caches: dict[str, np.ndarray] = {}
    for at in range(min(_TRIED, decoder.context)):
        given = {TOKEN: tokens[:, at : at + 1], POSITION: np.array([at])}
        found, wanted = interp.step(decoder.graph, given, caches)[LOGITS][0, 0], whole[0, at]
        if not np.allclose(found, wanted, rtol=0, atol=_TOLERANCE * np.abs(wanted).max(), equal_nan=True):
            raise RecipeError(f"{_NONE}: in this one, the scores at a token depend on the tokens that follow it")
