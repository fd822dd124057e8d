"""From planned programs to what a backend builds: the model's tables."""

from __future__ import annotations

from ..codegen.model import IN_FILE, LookedUp, Model, Tensor
from ..ir import DType, TensorType, Value
from ..plan import aligned
from ..plan.memory import RUNTIME_BYTES
from .inputs import has_perplexity, target_kinds
from .planned import Planned
from .ranges import IntegerRange

CONST_NAME = "const.{}"


def space_bytes(planned: Planned) -> dict[str, int]:
    """Bytes of each of the five blocks of memory."""
    return {"arena": aligned(planned.arena_bytes), **planned.spaces.sizes}


def predicted_peak_bytes(planned: Planned) -> int:
    """The most memory the executable will use: its five blocks and RUNTIME_BYTES."""
    return sum(space_bytes(planned).values()) + RUNTIME_BYTES


def describe(planned: Planned) -> Model:
    """What a backend makes the artifact's program of."""
    places, trained, kinds = planned.spaces.places, set(planned.scheme.trained()), target_kinds(planned)
    train = planned.programs["train"].graph
    tables = {lookup.table for lookup in planned.lookups}
    updated = {value.name for value in train.updates}
    params = tuple(
        Tensor(
            value.name,
            value.type,
            places.get(("param", value.name), IN_FILE),
            trained=value.name in updated or value.name in trained,
            packing=planned.packed.get(value.name),
        )
        for value in planned.model.params
        if ("param", value.name) in places or value.name in tables
    )
    types = {value.name: value.type for value in planned.inputs}
    index_of = {tensor.name: index for index, tensor in enumerate(params)}
    states = tuple(
        Tensor(
            value.name,
            value.type,
            places["state", value.name],
            trained=True,
            fill=0.0 if isinstance(fill, Value) else fill,
            average_of=index_of[fill.name] if isinstance(fill, Value) else None,
        )
        for value, fill in train.states.items()
    )
    consts = tuple(
        Tensor(CONST_NAME.format(index), TensorType(DType.of(array.dtype), tuple(array.shape)), location)
        for index, (location, array) in enumerate(planned.spaces.consts.values())
    )
    inputs = tuple(
        Tensor(
            value.name,
            value.type,
            places["input", value.name],
            limit=planned.ranges.get(value.name, IntegerRange(0)).limit,
            ignored=planned.ranges.get(value.name, IntegerRange(0)).ignored,
            target=kinds[value.name],
        )
        for value in planned.inputs
    )
    lookups = tuple(
        LookedUp(
            index_of[found.table], places["input", found.indices], types[found.indices], places["input", found.rows]
        )
        for found in planned.lookups
    )
    return Model(
        planned.name,
        planned.target.name,
        planned.threads,
        planned.batch,
        params,
        states,
        consts,
        inputs,
        planned.programs,
        space_bytes(planned),
        predicted_peak_bytes(planned),
        planned.recipe.accumulate,
        planned.recipe.last_batch,
        has_perplexity(planned),
        lookups,
    )
