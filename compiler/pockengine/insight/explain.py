"""Why a plan is as it is: what became one kernel and what did not, what is written in place, folded or computed twice,
what is alive where memory is highest, and how each contraction is scheduled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..autodiff import Quantised
from ..codegen.common.region import anchor_of, body_of, needed
from ..compile import Planned
from ..ir import DType, Graph, RegionKind, Value
from ..passes import unfused_neighbours
from ..plan import Slot
from ..plan.lives import base_of
from ..plan.program import Program, Step
from ..tune import Tuned, Tuning

_AGAIN = re.compile(r"(.+)\.again(\d*)")
"""Names of values that are computed a second time: with a number by `passes.recompute_elementwise`, else by
`passes.rematerialise`."""
_TO_FIT = "keeping it until the backward part reads it would not fit into the memory allowed"
_CHEAPER = "elementwise arithmetic makes it again where it is read, so its bytes need not be kept"


def explain(planned: Planned, tuning: Tuning) -> dict[str, Any]:
    """Plain values, as `pock compile --explain --json` prints them under `explain`; of the program `train`."""
    program = planned.programs["train"]
    updates = _updates(program.graph)
    return {
        "regions": [_region(index, step, updates) for index, step in enumerate(program.steps)],
        "not_fused": [
            {"first": pair.producer.origin, "second": pair.consumer.origin, "reason": pair.reason}
            for pair in unfused_neighbours(program.graph)
        ],
        "in_place": _in_place(program),
        "transposes": _transposes(program),
        "folded": _folded(planned),
        "quantised": [_quantised(stored, planned) for stored in planned.quantised],
        "recomputed": _recomputed(planned),
        "masks": _masks(program),
        "peak": _peak(program),
        "contractions": _contractions(planned, tuning),
    }


def _updates(graph: Graph) -> dict[Value, list[str]]:
    """Value -> the parameters and state whose new contents it is, maybe in another shape."""
    base, updates = base_of(graph), dict[Value, list[str]]()
    for target, new in graph.updates.items():
        updates.setdefault(base[new], []).append(target.name)
    return updates


def _region(index: int, step: Step, updates: Mapping[Value, list[str]]) -> dict[str, Any]:
    """What one step computes: the operators of its body, in order, each with its number where there are several, and
    which of them a contraction computes while it packs its operands."""
    node = step.node
    before = needed(anchor_of(node).inputs, body_of(node)) if node.region_kind is RegionKind.CONTRACTION else []
    counts: dict[str, int] = {}
    for inner in node.body.nodes if node.body else (node,):
        counts[inner.op] = counts.get(inner.op, 0) + 1
    return {
        "index": index,
        "layer": node.origin,
        "phase": node.phase,
        "kind": node.region_kind or "single",
        "operators": [op if count == 1 else f"{op} x{count}" for op, count in counts.items()],
        "while_packing": [inner.op for inner in before],
        "reads": [str(value.type) for value in node.inputs],
        "writes": [str(value.type) for value in node.outputs],
        "updates": [name for value in node.outputs for name in updates.get(value, ())],
        "kernels": [call.kernel.symbol for call in step.lowered.calls],
        "workspace_bytes": step.lowered.workspace_bytes,
    }


def _in_place(program: Program) -> list[dict[str, Any]]:
    """Results that lie where an operand of the same step lay; `space` tells parameters and state from the arena."""
    found = []
    for index, step in enumerate(program.steps):
        node = step.node
        for source, output in step.lowered.inplace:
            old, new = node.inputs[source], node.outputs[output]
            if program.locations.get(old) == program.locations.get(new) and new.type.nbytes:
                space = program.locations[new].space
                row = {"index": index, "layer": node.origin, "value": new.name, "over": old.name, "space": space}
                found.append({**row, "nbytes": new.type.nbytes})
    return found


def _transposes(program: Program) -> list[dict[str, Any]]:
    """Tensors that are copied into another order of axes, and the bytes read and written for it."""
    return [
        {"index": index, "layer": step.node.origin, "nbytes": 2 * step.node.output.type.nbytes}
        for index, step in enumerate(program.steps)
        if step.node.op == "transpose"
    ]


def _quantised(stored: Quantised, planned: Planned) -> dict[str, Any]:
    """How a frozen weight is stored, its bytes with the scales, and what rounding it lost."""
    return {
        "name": stored.name,
        "format": stored.format.value,
        "bits": stored.format.bits,
        "block": stored.block,
        "nbytes": sum(planned.model.data[name].nbytes for name in stored.names),
        "relative_rms_error": stored.error,
    }


def _folded(planned: Planned) -> dict[str, Any]:
    """Parameters that no program reads any more, since constants were computed from them, and those constants."""
    read = {value.name for graph in _graphs(planned) for node in graph.nodes for value in node.inputs}
    gone = [value for value in planned.model.params if value.name not in read]
    arrays = [array for _, array in planned.spaces.consts.values()]
    return {
        "parameters": [value.name for value in gone],
        "parameter_bytes": sum(value.type.nbytes for value in gone),
        "constants": len(arrays),
        "constant_bytes": sum(array.nbytes for array in arrays),
    }


def _graphs(planned: Planned) -> list[Graph]:
    return [program.graph for program in planned.programs.values()]


def _recomputed(planned: Planned) -> dict[str, Any]:
    """Forward values that are computed a second time, and why; `share_of_time` is what a limit on memory costs."""
    rows = []
    for step in planned.programs["train"].steps:
        inner = [value for node in step.node.body.nodes for value in node.outputs] if step.node.body else []
        for value in dict.fromkeys([*step.node.outputs, *inner]):
            if found := _AGAIN.fullmatch(value.name):
                row = {"layer": step.node.origin, "value": found[1], "nbytes": value.type.nbytes}
                rows.append({**row, "why": _CHEAPER if found[2] else _TO_FIT})
    return {"values": rows, "share_of_time": planned.recomputed.share}


def _masks(program: Program) -> list[dict[str, Any]]:
    """Masks that wait for the backward part as bits, and the bytes they would take as bools."""
    made = ((step, value) for step in program.steps for value in step.node.outputs if value.type.dtype is DType.BIT)
    return [
        {"layer": step.node.origin, "value": value.name, "nbytes": value.type.nbytes, "as_bools": value.type.size}
        for step, value in made
    ]


def _peak(program: Program) -> dict[str, Any]:
    """The step at which most bytes of the arena are in use, and what is alive there, the largest first."""
    slots, steps = program.plan.slots, program.steps
    live = program.plan.live(max(1, len(steps)))
    top = max(range(len(live)), key=live.__getitem__)
    alive = sorted((slot for slot in slots if slot.first <= top <= slot.last), key=lambda slot: -slot.nbytes)
    return {
        "index": top,
        "layer": steps[top].node.origin if top < len(steps) else "",
        "phase": steps[top].node.phase if top < len(steps) else "",
        "live_bytes": live[top],
        "arena_bytes": program.plan.arena_bytes,
        "alive": [_alive(slot, program) for slot in alive],
    }


def _alive(slot: Slot, program: Program) -> dict[str, Any]:
    made = program.steps[slot.first].node.origin
    until = program.steps[slot.last].node.origin
    row = {"value": slot.value, "kind": slot.kind, "nbytes": slot.nbytes, "layer": made, "needed_until": until}
    return {**row, "first": slot.first, "last": slot.last}


def _contractions(planned: Planned, tuning: Tuning) -> list[dict[str, Any]]:
    """How each contraction is scheduled, by whom that was chosen, and what the model expects of it."""
    known: Mapping[str, Tuned] = {one.workload.identity: one for one in tuning.workloads}
    rows, backend = [], planned.backend
    for index, step in enumerate(planned.programs["train"].steps):
        node = step.node
        tunable = backend.tunable(node, planned.target, planned.threads)
        if tunable is None:
            continue
        tuned = known.get(backend.identity(node) or "") if known else None
        usual = tunable.candidates()[0].choice
        choice = tuned.choice if tuned is not None and tuned.choice is not None else usual
        rows.append(
            {
                "index": index,
                "layer": node.origin,
                "phase": node.phase,
                "family": tunable.family,
                "operands": [str(value.type) for value in node.inputs],
                "flops": sum(call.flops for call in step.lowered.calls),
                "multiplies_in": choice.multiplies_in,
                "schedule": choice.describe(),
                "choice": choice.to_plain(),
                "chosen_by": tuned.source if tuned is not None else "model",
                "ms": tuned.ms if tuned is not None else None,
                "model_ms": tuned.model_ms if tuned is not None else None,
                "expected_share_of_peak": tunable.share_of_peak(choice),
            }
        )
    return rows
