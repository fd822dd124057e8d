"""What `model info` tells of a reference artifact, as docs/reference/binary.md has it."""

from __future__ import annotations

from typing import Any

from ...ir import TensorType
from .machine import Machine


def information(machine: Machine) -> dict[str, Any]:
    """What `model info` prints."""
    model = machine.model
    program = machine.scripts.get("predict") or machine.scripts.get("eval")

    def about(name: str, type: TensorType) -> dict[str, Any]:
        return {"name": name, "dtype": type.dtype.value, "shape": list(type.shape), "nbytes": type.nbytes}

    roles = (("param", model.params), ("state", model.states))
    return {
        "name": model.name,
        "target": model.target,
        "threads": model.threads,
        "batch": model.batch,
        "accumulate": model.accumulate_steps if "accumulate" in machine.scripts else 1,
        "last_batch": model.last_batch,
        **{f"{space}_bytes": size for space, size in model.space_bytes.items()},
        "predicted_peak_bytes": model.predicted_peak_bytes,
        **({"context": model.generation.position.limit} if model.generation is not None else {}),
        "inputs": [
            {
                **about(one.name, one.type),
                "target": one.target != "not_target",
                "optional": one.target == "sample_weight",
            }
            for one in model.inputs
        ],
        "outputs": [about(name, place.type) for name, place in program.outputs.items()] if program else [],
        "tensors": [
            {**about(one.name, one.type), "role": role, "trained": one.trained}
            for role, group in roles
            for one in group
        ],
    }
