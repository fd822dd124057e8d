"""What training takes, read off the plans of several recipes: memory, operations, and on which devices it fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..codegen import backends
from ..codegen.backend import Backend
from ..compile import (
    Kept,
    Planned,
    Reduced,
    Request,
    Scope,
    elsewhere,
    plan_reduced,
    predicted_peak_bytes,
    reduced,
    step_cycles,
    summary,
)
from ..errors import MemoryBudgetError, RecipeError, TargetError, UnsupportedOperatorError
from ..ir import Graph, Node
from ..recipe import Recipe
from ..targets import USUAL_BACKEND, Memory, Target
from ..targets import all as all_targets
from .forked import in_fork
from .speed import clock_of

GIVEN = "recipe"
"""What the user's own recipe is called beside `full`, `head` and `bias`."""

SYSTEM_SHARE = 1 / 4
"""The part of a memory that is left to others: the system; what drives an accelerator."""

NEAR = 0.1
"""Within this distance of a device's limit, the step is planned for that device; elsewhere the plan for another one
tells, since devices differ in scratch memory only."""


@dataclass(frozen=True)
class Fit:
    """Whether a step fits a device: its peak in bytes against the memory in which the backend keeps tensors there.

    ram_bytes  memory of the device's processor"""

    target: str
    predicted_peak_bytes: int
    ram_bytes: int
    memory: Memory

    @property
    def fits(self) -> bool:
        """Whether the peak leaves others their share."""
        return self.predicted_peak_bytes <= _limit(self.memory)

    def to_mapping(self) -> dict[str, Any]:
        return {
            "predicted_peak_bytes": self.predicted_peak_bytes,
            "ram_bytes": self.ram_bytes,
            "memory": self.memory.name,
            "memory_bytes": self.memory.nbytes,
            "fits": self.fits,
        }


@dataclass(frozen=True)
class Estimate:
    """What one recipe takes on a target, from the plan.

    fit          whether it fits the target
    step_ms      milliseconds that the backend expects of a training step on the target's fastest core clock
    summary      the figures of docs/reference/binary.md: bytes, nodes, floating-point operations
    saved_bytes  origin of a forward node -> bytes of its results that the backward pass needs
    devices      the same for every target that has the memory in which the backend keeps tensors"""

    fit: Fit
    threads: int
    step_ms: float
    summary: Mapping[str, Any]
    saved_bytes: Mapping[str, int]
    devices: tuple[Fit, ...] = field(default=())

    def to_mapping(self) -> dict[str, Any]:
        about = {"target": self.fit.target, "threads": self.threads, "step_ms": round(self.step_ms, 4)}
        about |= self.fit.to_mapping()
        devices = {fit.target: fit.to_mapping() for fit in self.devices}
        return {**about, **self.summary, "saved_bytes": sum(self.saved_bytes.values()), "targets": devices}


Compared = Mapping[str, Estimate | str]
"""Name of a recipe -> its estimate, or the sentence that says why it cannot be used on this model."""


def _limit(memory: Memory) -> float:
    """Bytes of a memory that a step may take."""
    return memory.nbytes * (1 - SYSTEM_SHARE)


def estimate(
    graph: Graph,
    recipe: Recipe,
    target: Target,
    threads: int | None = None,
    memory: int | None = None,
    backend: Backend | None = None,
    kept: Kept | None = None,
) -> Estimate:
    """Plan all programs, as compiling does, and read off what they take. A `backend` that is given again knows the
    kernels that recipes have in common, and `kept` what else they have. Raises RecipeError or
    UnsupportedOperatorError."""
    backend = backend or backends.of(target)
    request = Request(graph, recipe, target, threads, memory=memory, backend=backend, kept=kept)
    return _planned(request)


def _planned(request: Request) -> Estimate:
    programs = reduced(request)
    planned = plan_reduced(programs, request.backend)
    calls = [call for program in planned.programs.values() for step in program.steps for call in step.lowered.calls]
    figures = summary(planned, kernels=len({call.kernel.symbol for call in calls}))
    peak, target = figures["predicted_peak_bytes"], planned.target
    fit = Fit(target.name, peak, target.ram_bytes, planned.backend.memory(target))
    step_ms = step_cycles(planned).step / clock_of(target, planned.backend) * 1e3
    return Estimate(fit, planned.threads, step_ms, figures, _saved(planned), tuple(_fits(programs, planned, peak)))


def compare(
    graph: Graph,
    recipe: Recipe | None,
    target: Target,
    memory: int | None = None,
    backend: str | None = None,
) -> Compared:
    """Estimates of the training step when everything, the head or the biases are trained with the given recipe's loss
    and optimizer (without one: AdamW and the loss that suits the output); and of all programs of the given recipe.

    With `memory`, forward nodes are computed twice where that makes a step fit, and what cannot fit is a sentence."""
    comparison = _Comparison(graph, recipe, target, memory, backends.of(target, backend))
    others = in_fork(lambda: comparison.estimates(("bias", GIVEN), NOT_KNOWN_YET))
    full = comparison.estimates(("full",), None)
    told = full["full"]
    if isinstance(told, str):  # something has no gradient, so each recipe finds out what is dense for it
        return full | comparison.estimates(("head", "bias", GIVEN), None)
    dense = int(told.summary["nodes_backward_dense"])
    return full | comparison.estimates(("head",), dense) | {k: _with_dense(e, dense) for k, e in others().items()}


NOT_KNOWN_YET = -1
"""Stands for the number of dense backward nodes until the plan that tells it is there."""


def _with_dense(found: Estimate | str, dense: int) -> Estimate | str:
    if isinstance(found, str) or found.summary["nodes_backward_dense"] != NOT_KNOWN_YET:
        return found
    return replace(found, summary={**found.summary, "nodes_backward_dense": dense})


class _Comparison:
    """Plans several recipes for one model; they share what lowers nodes, since most nodes are the same."""

    def __init__(
        self, graph: Graph, recipe: Recipe | None, target: Target, memory: int | None, backend: Backend
    ) -> None:
        self._graph, self._given, self._target, self._memory = graph, recipe, target, memory
        self._base = recipe or usual_recipe(graph)
        self._backend = backend

    def estimates(self, names: Iterable[str], dense: int | None) -> dict[str, Estimate | str]:
        """The estimate of each recipe, or why there is none; `dense` as `Request` has it."""
        found: dict[str, Estimate | str] = {}
        for name in names:
            if name != GIVEN:
                try:
                    found[name] = self._usual(name, dense)
                except (RecipeError, UnsupportedOperatorError) as error:
                    found[name] = str(error)
            elif self._given is not None:
                try:
                    found[name] = self._plan(self._given, None if self._given.lora else dense)
                except MemoryBudgetError as error:
                    found[name] = str(error)
        return found

    def _usual(self, update: str, dense: int | None) -> Estimate:
        recipe = self._base.with_(update=update, lora=None, frozen=None)
        return self._plan(recipe, dense, Scope.TRAINING)

    def _plan(self, recipe: Recipe, dense: int | None, scope: Scope = Scope.ALL) -> Estimate:
        request = Request(
            self._graph, recipe, self._target, memory=self._memory, backend=self._backend, scope=scope, dense=dense
        )
        return _planned(request)


def _fits(programs: Reduced, planned: Planned, peak: int) -> Iterator[Fit]:
    """Of each target that has the memory in which the backend keeps tensors, and is not for another one."""
    for device in all_targets():
        if device.backend not in (USUAL_BACKEND, planned.backend.name):
            continue
        try:
            runs_in = planned.backend.memory(device)
        except TargetError:
            continue
        yield _fit(programs, planned, device, runs_in, peak)


def _fit(programs: Reduced, planned: Planned, device: Target, runs_in: Memory, peak: int) -> Fit:
    """Plans anew only where the answer could depend on the device's scratch memory."""
    limit = _limit(runs_in)
    if device.name != planned.target.name and abs(peak - limit) < NEAR * limit:
        try:
            peak = predicted_peak_bytes(plan_reduced(elsewhere(programs, device), planned.backend))
        except MemoryBudgetError as error:
            peak = error.least_bytes
    return Fit(device.name, peak, device.ram_bytes, runs_in)


def usual_recipe(graph: Graph) -> Recipe:
    """What a model is trained with where nobody says: AdamW, and the loss that suits its output. Raises RecipeError."""
    return Recipe(_usual_loss(graph), "adamw")


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
    start = next((index for index, node in enumerate(nodes) if node.phase == "backward"), len(nodes))
    saved: dict[str, int] = {}
    for slot in program.plan.slots:
        if slot.kind == "activation" and slot.first < start <= slot.last:
            origin = nodes[slot.first].origin
            saved[origin] = saved.get(origin, 0) + slot.nbytes
    return saved
