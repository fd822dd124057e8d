"""`pock check`: can this model be compiled, what is in it, and what will training it take? Compiles nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..autodiff import with_adapters
from ..errors import UnsupportedOperatorError
from ..frontends import OperatorUse, Survey, UnsupportedNode, load, survey
from ..frontends.onnx.survey import FORWARD, SUPPORTED
from ..ir import Graph
from ..ops import differentiable
from ..recipe import Layer, Recipe, layers_of, node_flops, resolve
from ..targets import Target
from ..targets import get as get_target
from .estimates import GIVEN, Compared, Estimate, Fit, compare, estimate, usual_recipe
from .schemes import Schemes, check_scheme, compare_schemes


@dataclass(frozen=True)
class CheckReport:
    """The answer of `pock check`. `layers` is empty where the model cannot be imported, `recipes` where it cannot be
    trained; `missing_weights` says that the file of the weights is not there."""

    supported: bool
    operators: tuple[OperatorUse, ...]
    unsupported: tuple[UnsupportedNode, ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    layers: tuple[Layer, ...]
    param_count: int
    flops_forward: int
    recipes: Compared
    missing_weights: bool = False

    @property
    def estimate(self) -> Estimate | None:
        """That of the given recipe."""
        given = self.recipes.get(GIVEN)
        return given if isinstance(given, Estimate) else None

    def to_mapping(self) -> dict[str, Any]:
        """Plain values: what `--json` prints."""
        return {
            "supported": self.supported,
            "missing_weights": self.missing_weights,
            "operators": [asdict(use) for use in self.operators],
            "unsupported": [asdict(node) for node in self.unsupported],
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
            "param_count": self.param_count,
            "flops_forward": self.flops_forward,
            "layers": [layer.to_mapping() for layer in self.layers],
            "recipes": {
                name: found.to_mapping() if isinstance(found, Estimate) else {"error": found}
                for name, found in self.recipes.items()
            },
            "estimate": self.estimate.to_mapping() if self.estimate else None,
        }


def check(
    graph: Graph,
    recipe: Recipe | None = None,
    target: str | Target = "host",
    memory: int | None = None,
    backend: str | None = None,
) -> CheckReport:
    """Check an imported model: plan training all of it, its head, its biases, and what the recipe says, within `memory`
    bytes for the whole process, as `backend` (default: the target's) would compute it.

    Raises RecipeError where the recipe does not fit the model, TargetError for an unknown target,
    UnsupportedOperatorError where a gradient or a kernel is missing."""
    recipe = recipe.bound(graph) if recipe else None
    recipes = compare(graph, recipe, _device(target), memory, backend)
    told = recipes.get(GIVEN, recipes.get("full"))
    saved = told.saved_bytes if isinstance(told, Estimate) else {}
    described = _described(graph, recipe, saved)
    return replace(described, recipes=recipes)


def _device(target: str | Target) -> Target:
    return get_target(target) if isinstance(target, str) else target


def _described(graph: Graph, recipe: Recipe | None, saved: Mapping[str, int]) -> CheckReport:
    """What needs no plan, and of the recipe only what gradients can reach."""
    counts: dict[str, int] = {}
    for node in graph.nodes:
        counts[node.op] = counts.get(node.op, 0) + 1
    return CheckReport(
        supported=True,
        operators=tuple(OperatorUse(op, count, "supported") for op, count in sorted(counts.items())),
        unsupported=(),
        inputs={value.name: str(value.type) for value in graph.inputs},
        outputs={name: str(value.type) for name, value in graph.outputs.items()},
        layers=layers(graph, recipe, saved),
        param_count=sum(value.type.size for value in graph.params),
        flops_forward=sum(node_flops(node) for node in graph.nodes),
        recipes={},
    )


def layers(graph: Graph, recipe: Recipe | None, saved: Mapping[str, int]) -> tuple[Layer, ...]:
    """The layers of an imported graph, adapters that the recipe asks for among them, and what it trains of each.
    saved: as `layers_of` has it. Raises RecipeError where the recipe does not fit the model."""
    trained = with_adapters(graph, recipe.lora) if recipe and recipe.lora else graph
    scheme = None
    if recipe:
        with contextlib.suppress(UnsupportedOperatorError):
            scheme = resolve(recipe, trained)
    return layers_of(trained, scheme, saved)


def check_file(
    path: str | Path,
    recipe: Recipe | None = None,
    target: str | Target = "host",
    dims: Mapping[str, int] | None = None,
    batch: int | None = None,
    memory: int | None = None,
    backend: str | None = None,
) -> CheckReport:
    """Check an ONNX file, whose external weights may be missing; unsupported operators are part of the report, not an
    error. Or check the folder of a language model, as `load` takes it. Raises ModelError, DynamicShapeError,
    RecipeError or TargetError."""
    wanted = batch if batch is not None else recipe.batch if recipe else None
    if Path(path).is_dir():
        return check(load(path, dims, wanted), recipe, target, memory, backend)
    with ThreadPoolExecutor(1) as meanwhile:
        device = meanwhile.submit(_device, target)  # measuring the host waits for another program
        found = survey(path, _trained_patterns(recipe) if recipe else [], dims, batch)
        if found.unsupported:
            return CheckReport(False, found.operators, found.unsupported, {}, {}, (), 0, 0, {}, found.missing_weights)
        graph = load(path, dims, wanted, need_weights=False)
    recipe = recipe.bound(graph) if recipe else None
    try:
        report = check(graph, recipe, device.result(), memory, backend)
    except UnsupportedOperatorError as error:
        # The model can be imported, but a gradient or a kernel of the training step is missing.
        missing = UnsupportedNode(
            error.operator or "", error.node or "", error.shapes or "", "the training step", str(error), error.advice
        )
        report = replace(_described(graph, recipe, {}), supported=False, unsupported=(missing,))
    return replace(report, operators=_with_gradients(found, graph), missing_weights=found.missing_weights)


def _trained_patterns(recipe: Recipe) -> list[str]:
    """Globs of the parameters that gradients must reach: those of the rules, and the weights with adapters."""
    adapted = [form for pattern in recipe.lora.params for form in (pattern, f"{pattern}.weight")] if recipe.lora else []
    return [*(rule.params for rule in recipe.update), *adapted]


def _with_gradients(found: Survey, graph: Graph) -> tuple[OperatorUse, ...]:
    """The operators of the file, those without a gradient marked."""
    without = {
        found.operator_of.get(node.origin)
        for node in graph.nodes
        if node.outputs[0].type.dtype.is_float and not differentiable(node.op)
    }
    return tuple(
        replace(use, status=FORWARD) if use.operator in without and use.status == SUPPORTED else use
        for use in found.operators
    )


__all__ = [
    "GIVEN",
    "CheckReport",
    "Compared",
    "Estimate",
    "Fit",
    "Schemes",
    "check",
    "check_file",
    "check_scheme",
    "compare",
    "compare_schemes",
    "estimate",
    "layers",
    "usual_recipe",
]
