"""From planned programs to what a backend builds: the model's tables."""

from __future__ import annotations

from collections.abc import Mapping

from ..codegen.model import IN_FILE, Generation, Model, StreamedRows, Tensor
from ..generation import POSITION, TOKEN
from ..ir import DType, TensorType, Value
from ..plan import Space, aligned
from .graphs import GENERATE, NORMS
from .inputs import has_perplexity, target_kinds
from .planned import Planned
from .ranges import IntegerRange, integer_ranges

CONST_NAME = "const.{}"


def space_bytes(planned: Planned) -> dict[Space, int]:
    """Bytes of each of the five blocks of memory, and of the host's."""
    return {Space.ARENA: aligned(planned.arena_bytes, planned.spaces.alignment), **planned.spaces.sizes}


def predicted_peak_bytes(planned: Planned) -> int:
    """The most memory the executable will use: its five blocks and itself. What is offloaded is elsewhere."""
    sizes = space_bytes(planned)
    return sum(sizes.values()) - sizes[Space.HOST] + planned.runtime_bytes


def describe(planned: Planned) -> Model:
    """What a backend makes the artifact's program of."""
    params = _params(planned)
    index_of = {tensor.name: index for index, tensor in enumerate(params)}
    return Model(
        name=planned.name,
        target=planned.target.name,
        threads=planned.threads,
        batch=planned.batch,
        params=params,
        states=_states(planned, index_of),
        consts=_consts(planned),
        inputs=_inputs(planned),
        programs=planned.programs,
        space_bytes=space_bytes(planned),
        alignment=planned.spaces.alignment,
        predicted_peak_bytes=predicted_peak_bytes(planned),
        accumulate_steps=planned.recipe.accumulate,
        norm_batches=planned.recipe.norm_batches or 0,
        last_batch=planned.recipe.last_batch,
        perplexity=has_perplexity(planned),
        streamed=_streamed(planned, index_of),
        generation=_generation(planned),
    )


def _params(planned: Planned) -> tuple[Tensor, ...]:
    """The parameters that programs read, or that stay in the weights file."""
    places, tables = planned.spaces.places, {one.table for one in planned.streamed}
    updated = {value.name for value in planned.programs["train"].graph.updates}
    estimated = set(planned.programs[NORMS].graph.outputs) if NORMS in planned.programs else set()
    trained = updated | estimated | set(planned.scheme.trained())
    return tuple(
        Tensor(
            value.name,
            value.type,
            places.get((Space.PARAM, value.name), IN_FILE),
            trained=value.name in trained,
            packing=planned.packed.get(value.name),
            rounded=planned.rounded.get(value.name),
        )
        for value in planned.model.params
        if (Space.PARAM, value.name) in places or value.name in tables
    )


def _states(planned: Planned, index_of: Mapping[str, int]) -> tuple[Tensor, ...]:
    """Optimizer state; `index_of` numbers the parameters, of which some states are averages."""
    return tuple(
        Tensor(
            value.name,
            value.type,
            planned.spaces.places[Space.STATE, value.name],
            trained=True,
            fill=0.0 if isinstance(fill, Value) else fill,
            average_of=index_of[fill.name] if isinstance(fill, Value) else None,
        )
        for value, fill in planned.programs["train"].graph.states.items()
    )


def _consts(planned: Planned) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(CONST_NAME.format(index), TensorType(DType.of(array.dtype), tuple(array.shape)), location)
        for index, (location, array) in enumerate(planned.spaces.consts.values())
    )


def _inputs(planned: Planned) -> tuple[Tensor, ...]:
    kinds, anything = target_kinds(planned), IntegerRange(0)
    return tuple(
        Tensor(
            value.name,
            value.type,
            planned.spaces.places[Space.INPUT, value.name],
            limit=planned.ranges.get(value.name, anything).limit,
            ignored=planned.ranges.get(value.name, anything).ignored,
            target=kinds[value.name],
        )
        for value in planned.inputs
    )


def _generation(planned: Planned) -> Generation | None:
    """Where the program of one token finds what it reads."""
    if planned.decoder is None:
        return None
    graph, places = planned.programs[GENERATE].graph, planned.spaces.places
    types, ranges = {value.name: value.type for value in graph.inputs}, integer_ranges(planned.decoder.graph)
    vocabulary = next(iter(planned.decoder.graph.outputs.values())).type.shape[-1]
    limits = {TOKEN: ranges.get(TOKEN, IntegerRange(vocabulary)).limit, POSITION: planned.decoder.context}
    token, position = (
        Tensor(name, types[name], places[Space.INPUT, name], limit=limits[name]) for name in (TOKEN, POSITION)
    )
    return Generation(token, position)


def _streamed(planned: Planned, index_of: Mapping[str, int]) -> tuple[StreamedRows, ...]:
    places, types = planned.spaces.places, {value.name: value.type for value in planned.inputs}
    return tuple(
        StreamedRows(
            index_of[found.table],
            places[Space.INPUT, found.indices],
            types[found.indices],
            places[Space.INPUT, found.rows],
        )
        for found in planned.streamed
    )
