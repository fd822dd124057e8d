"""What training takes, read off the plans of several recipes: memory, operations, and on which devices it fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..compile import Planned, plan_programs, predicted_peak_bytes, summary
from ..errors import MemoryBudgetError, RecipeError, UnsupportedOperatorError
from ..ir import Graph, Node
from ..recipe import Recipe
from ..targets import Target
from ..targets import all as all_targets

GIVEN = "recipe"
"""What the user's own recipe is called beside `full`, `head` and `bias`."""

SYSTEM_SHARE = 1 / 4
"""The part of a device's memory that is left to the system."""

NEAR = 0.1
"""Within this distance of a device's limit, the step is planned for that device; elsewhere the plan for another one
tells, since devices differ in scratch memory only."""


@dataclass(frozen=True)
class Fit:
    """Whether a step fits a device: peak memory of the process against the device's memory, in bytes."""

    target: str
    predicted_peak_bytes: int
    ram_bytes: int

    @property
    def fits(self) -> bool:
        """Whether the peak leaves the system its share."""
        return fits(self.predicted_peak_bytes, self.ram_bytes)


@dataclass(frozen=True)
class Estimate:
    """What one recipe takes on a target, from the plan.

    summary      the figures of docs/reference/binary.md: bytes, nodes, floating-point operations
    ram_bytes    memory of the target
    saved_bytes  origin of a forward node -> bytes of its results that the backward pass needs
    devices      the same for every target"""

    target: str
    threads: int
    ram_bytes: int
    summary: Mapping[str, Any]
    saved_bytes: Mapping[str, int]
    devices: tuple[Fit, ...] = field(default=())

    @property
    def fits(self) -> bool:
        """Whether the predicted peak leaves a quarter of the target's memory to the system."""
        return fits(self.summary["predicted_peak_bytes"], self.ram_bytes)

    def to_mapping(self) -> dict[str, Any]:
        about = {"target": self.target, "threads": self.threads, "ram_bytes": self.ram_bytes, "fits": self.fits}
        devices = {
            fit.target: {
                "predicted_peak_bytes": fit.predicted_peak_bytes,
                "ram_bytes": fit.ram_bytes,
                "fits": fit.fits,
            }
            for fit in self.devices
        }
        return {**about, **self.summary, "saved_bytes": sum(self.saved_bytes.values()), "targets": devices}


Compared = Mapping[str, Estimate | str]
"""Name of a recipe -> its estimate, or the sentence that says why it cannot be used on this model."""


def fits(peak_bytes: int, ram_bytes: int) -> bool:
    """Whether a process of this size leaves the system its share of a device's memory."""
    return peak_bytes <= ram_bytes * (1 - SYSTEM_SHARE)


def estimate(
    graph: Graph, recipe: Recipe, target: Target, threads: int | None = None, memory: int | None = None
) -> Estimate:
    """Plan all programs, as compiling does, and read off what they take. Raises RecipeError or
    UnsupportedOperatorError."""
    return _read_off(plan_programs(graph, recipe, target, threads, memory=memory), graph, memory)


def _read_off(planned: Planned, graph: Graph, memory: int | None) -> Estimate:
    calls = [call for program in planned.programs.values() for step in program.steps for call in step.lowered.calls]
    figures = summary(planned, kernels=len({call.kernel.symbol for call in calls}))
    peak, target = figures["predicted_peak_bytes"], planned.target
    devices = tuple(_fit(graph, planned.recipe, device, target, peak, memory) for device in all_targets())
    return Estimate(target.name, planned.threads, target.ram_bytes, figures, _saved(planned), devices)


def compare(graph: Graph, recipe: Recipe | None, target: Target, memory: int | None = None) -> Compared:
    """Estimates of the training step when everything, the head or the biases are trained with the given recipe's loss
    and optimizer (without one: AdamW and the loss that suits the output); and of all programs of the given recipe.

    With `memory`, forward nodes are computed twice where that makes a step fit, and what cannot fit is a sentence."""
    base = recipe or Recipe(_usual_loss(graph), "adamw")
    found: dict[str, Estimate | str] = {}
    dense: int | None = None
    for name in ("full", "head", "bias"):
        try:
            wanted = base.with_(update=name, lora=None, frozen=None)
            planned = plan_programs(graph, wanted, target, dense=dense, only_training=True, memory=memory)
        except (RecipeError, UnsupportedOperatorError) as error:
            found[name] = str(error)
        else:
            dense = planned.counts.backward_dense
            found[name] = _read_off(planned, graph, memory)
    if recipe is not None:
        known = dense if recipe.lora is None else None
        try:
            planned = plan_programs(graph, recipe, target, dense=known, memory=memory)
            found[GIVEN] = _read_off(planned, graph, memory)
        except MemoryBudgetError as error:
            found[GIVEN] = str(error)
    return found


def _fit(graph: Graph, recipe: Recipe, device: Target, planned_for: Target, peak: int, memory: int | None) -> Fit:
    """Plans anew only where the answer could depend on the device's scratch memory."""
    limit = device.ram_bytes * (1 - SYSTEM_SHARE)
    if device.name != planned_for.name and abs(peak - limit) < NEAR * limit:
        try:
            peak = predicted_peak_bytes(plan_programs(graph, recipe, device, memory=memory))
        except MemoryBudgetError as error:
            peak = error.least_bytes
    return Fit(device.name, peak, device.ram_bytes)


def _usual_loss(graph: Graph) -> dict[str, Any]:
    """Cross-entropy of the output called `logits` or else the first of floating point, mean squared error where it has
    no classes, the output itself where it is a scalar."""
    floats = [name for name, value in graph.outputs.items() if value.type.dtype.is_float]
    if not floats:
        raise RecipeError("the model has no output of floating point, so there is nothing to train it on")
    name = "logits" if "logits" in floats else floats[0]
    rank = graph.outputs[name].type.rank
    return {"name": "output" if rank == 0 else "mse" if rank == 1 else "cross_entropy", "output": name}


def _saved(planned: Planned) -> dict[str, int]:
    """Origin -> bytes of forward results that a later phase reads, in the plan of the training step."""
    program = planned.programs["train"]
    nodes: list[Node] = [step.node for step in program.steps]
    start = next((index for index, node in enumerate(nodes) if node.phase != "forward"), len(nodes))
    saved: dict[str, int] = {}
    for slot in program.plan.slots:
        if slot.kind == "activation" and slot.first < start <= slot.last:
            origin = nodes[slot.first].origin
            saved[origin] = saved.get(origin, 0) + slot.nbytes
    return saved
