"""From planned programs and machine code to an artifact: manifest, weights, the text of the graphs."""

from __future__ import annotations

import math
from importlib import metadata
from typing import Any

from ..artifact import Artifact, Content, EntryPoints, InputInfo, Manifest, PortInfo, TensorInfo, model_members
from ..codegen.backend import Built
from ..codegen.common.region import touched
from ..ir import Node, Value, render
from ..ops import is_kind
from ..plan.program import Program, Step
from ..plan.space import Space
from ..recipe import ALL, FROZEN, Channels
from ..tensors import Tensors
from ..tune import Tuning
from .build import CONST_NAME, predicted_peak_bytes, space_bytes
from .inputs import target_kinds
from .planned import Planned, step_cycles


def pack(planned: Planned, built: Built, compile_seconds: float, tuning: Tuning) -> Artifact:
    """The artifact; its summary has `compile_seconds` and `cache_hits`, its manifest only what is deterministic."""
    members: dict[str, bytes | Content] = {
        **built.members,
        "params.safetensors": Tensors({value.name: planned.model.data[value.name] for value in planned.model.params}),
        "graph.txt": "\n".join(render(program.graph) for program in planned.programs.values()).encode(),
    }
    members |= model_members(planned.imported)
    if consts := [array for _, array in planned.spaces.consts.values()]:
        named = {CONST_NAME.format(index): array for index, array in enumerate(consts)}
        members["consts.safetensors"] = Tensors(named)
    stated = {**summary(planned, built.kernels), **tuning.summary()}
    kinds = target_kinds(planned)
    manifest = Manifest(
        name=planned.name,
        created_by={"pockengine": metadata.version("pockengine"), **built.tools},
        target=planned.target.to_dict(),
        recipe=planned.recipe.to_mapping(),
        threads=planned.threads,
        summary=stated,
        programs={name: _program(program) for name, program in planned.programs.items()},
        tensors=tuple(_tensor_table(planned)),
        inputs=tuple(_input(value, kinds[value.name]) for value in planned.inputs),
        outputs=tuple(_port(name, value) for name, value in planned.programs["predict"].graph.outputs.items()),
        entry_points=EntryPoints(**built.entry_points),
        backend=planned.backend.name,
    )
    extra = {"compile_seconds": round(compile_seconds, 3), "cache_hits": built.cache_hits}
    return Artifact.create(manifest, members, {**stated, **extra, **tuning.statistics()})


def summary(planned: Planned, kernels: int) -> dict[str, Any]:
    """The figures of docs/reference/binary.md that do not depend on when and where the build ran. Bytes and
    operations."""
    sizes, counts = space_bytes(planned), planned.counts
    return {
        "compute": planned.target.compute,
        "batch": planned.batch,
        "arena_bytes": sizes[Space.ARENA],
        "lower_bound_bytes": planned.lower_bound_bytes,
        "param_bytes": sizes[Space.PARAM],
        "state_bytes": sizes[Space.STATE],
        "const_bytes": sizes[Space.CONST],
        "input_bytes": sizes[Space.INPUT],
        "host_bytes": sizes[Space.HOST],
        **_offloaded(planned),
        "runtime_bytes": planned.runtime_bytes,
        "predicted_peak_bytes": predicted_peak_bytes(planned),
        "clip_norm_bytes": planned.clip_norm_bytes,
        "nodes_forward": counts.forward,
        "nodes_backward": counts.backward,
        "nodes_backward_dense": counts.backward_dense,
        "recomputed_nodes": planned.recomputed.nodes,
        "recomputed_flops": planned.recomputed.flops,
        "recomputed_share": round(planned.recomputed.share, 4),
        "kernels": kernels,
        "flops": dict(counts.flops),
        "parameters": _numbers(planned),
        "trained_parameters": sum(_trained_size(planned, value) for value in planned.model.params),
        "left_out": dict(planned.scheme.left_out),
        **_trained(planned),
        **_quantised(planned),
        **_generation(planned),
    }


def _offloaded(planned: Planned) -> dict[str, Any]:
    """What lies in the host's memory, and the time that a step waits for it as a part of its own; nothing where nothing
    does."""
    there = sum(place.space is Space.HOST for place in planned.spaces.places.values())
    if not there:
        return {}
    cycles = step_cycles(planned)
    return {"host_tensors": there, "host_share": round(cycles.step / cycles.computing - 1, 4)}


def _numbers(planned: Planned) -> int:
    """Numbers of the model, each quantised one once."""
    stored = {name for quantised in planned.quantised for name in quantised.names}
    kept = sum(value.type.size for value in planned.model.params if value.name not in stored)
    return kept + sum(math.prod(quantised.shape) for quantised in planned.quantised)


def _trained(planned: Planned) -> dict[str, Any]:
    """Trained numbers that lie in 16 bits; nothing where the recipe asks for none."""
    if planned.recipe.trained is None:
        return {}
    narrow = (value for value in planned.model.params if value.type.dtype is planned.recipe.trained.dtype)
    return {"trained_in_16_bits": sum(_trained_size(planned, value) for value in narrow)}


def _quantised(planned: Planned) -> dict[str, Any]:
    """How each quantised weight is stored and what it lost; nothing where none is."""
    if planned.recipe.frozen is None:
        return {}
    errors = [quantised.error for quantised in planned.quantised]
    return {
        "quantised": {quantised.name: quantised.to_mapping() for quantised in planned.quantised},
        "quantised_error_worst": max(errors, default=0.0),
        "quantised_error_mean": sum(errors) / max(1, len(errors)),
    }


def _generation(planned: Planned) -> dict[str, Any]:
    """How many tokens there is room for; nothing where none are generated."""
    if planned.decoder is None:
        return {}
    return {"generate": {"context": planned.decoder.context, "cache_bytes": planned.decoder.cache_bytes}}


def _trained_size(planned: Planned, value: Value) -> int:
    update = planned.scheme.of(value.name)
    if isinstance(update, Channels):
        return value.type.size // value.type.shape[update.axis] * len(update.indices)
    return value.type.size if update == ALL else 0


def _program(program: Program) -> dict[str, Any]:
    """One entry point for the manifest: its nodes in order, and the plan."""
    nodes = []
    for index, step in enumerate(program.steps):
        calls = step.lowered.calls
        nodes.append(
            {
                "index": index,
                "name": step.node.origin or step.node.outputs[0].name,
                "op": _operator(step.node),
                "kernel": calls[-1].kernel.symbol if calls else "",
                "flops": sum(call.flops for call in calls),
                "bytes": sum(call.bytes for call in calls),
                "phase": step.node.phase,
                "operands": _operands(program, step),
            }
        )
    slots = [
        {
            "value": slot.value,
            "offset": slot.offset,
            "nbytes": slot.nbytes,
            "first": slot.first,
            "last": slot.last,
            "kind": slot.kind,
        }
        for slot in program.plan.slots
    ]
    plan = program.plan
    return {
        "arena_bytes": plan.arena_bytes,
        "lower_bound_bytes": plan.lower_bound_bytes,
        "nodes": nodes,
        "slots": slots,
    }


def _operands(program: Program, step: Step) -> list[list[Any]]:
    """[space, offset, bytes] of what a step reads and writes, each place once; scratch memory not among them."""
    found: dict[tuple[str, int], int] = {}
    for value, nbytes in touched(step.node).items():
        place = program.locations[value].space, program.locations[value].offset
        found[place] = max(nbytes, found.get(place, 0))
    return [[*place, nbytes] for place, nbytes in found.items()]


def _operator(node: Node) -> str:
    """What takes a step's time: its contractions, else its reductions, else what it begins with."""
    inside = node.body.nodes if node.body else (node,)
    for kind in ("contraction", "reduction"):
        if heavy := dict.fromkeys(other.op for other in inside if is_kind(other, kind)):
            return " ".join(heavy)
    return inside[0].op


def _tensor_table(planned: Planned) -> list[TensorInfo]:
    rows = []
    for value in planned.model.params:
        update = planned.scheme.of(value.name)
        channels = update.indices if isinstance(update, Channels) else None
        kind = "channels" if channels is not None else ALL if update == ALL else FROZEN
        rows.append(_tensor(value, "param", kind, channels))
    rows += [_tensor(value, "state", "all", None) for value in planned.programs["train"].graph.states]
    return rows


def _tensor(value: Value, role: str, trained: str, channels: tuple[int, ...] | None) -> TensorInfo:
    type = value.type
    return TensorInfo(value.name, type.dtype.value, type.shape, type.nbytes, role, trained, channels)


def _input(value: Value, kind: str) -> InputInfo:
    type = value.type
    return InputInfo(value.name, type.dtype.value, type.shape, kind != "not_target", kind == "sample_weight")


def _port(name: str, value: Value) -> PortInfo:
    return PortInfo(name, value.type.dtype.value, value.type.shape)
