"""`pock check`: can this model be compiled, what is in it, and what will training it take? Compiles nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .autodiff import with_adapters
from .compile import plan_programs, summary
from .errors import UnsupportedOperatorError
from .frontends import OperatorUse, UnsupportedNode, load, survey
from .ir import Graph
from .recipe import Layer, Recipe, layers_of, node_flops, resolve
from .targets import Target
from .targets import get as get_target


@dataclass(frozen=True)
class Estimate:
    """What training on a target takes, from the plan.

    summary    the figures of docs/reference/binary.md: bytes, nodes, floating-point operations
    ram_bytes  memory of the target
    fits       whether the predicted peak leaves a quarter of it to the system"""

    target: str
    threads: int
    ram_bytes: int
    fits: bool
    summary: Mapping[str, Any]

    def to_mapping(self) -> dict[str, Any]:
        about = {"target": self.target, "threads": self.threads, "ram_bytes": self.ram_bytes, "fits": self.fits}
        return {**about, **self.summary}


@dataclass(frozen=True)
class CheckReport:
    """The answer of `pock check`. `layers` is empty and `estimate` None where the model cannot be imported; the
    estimate also needs a recipe."""

    supported: bool
    operators: tuple[OperatorUse, ...]
    unsupported: tuple[UnsupportedNode, ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    layers: tuple[Layer, ...]
    param_count: int
    flops_forward: int
    estimate: Estimate | None

    def to_mapping(self) -> dict[str, Any]:
        """Plain values: what `--json` prints."""
        return {
            "supported": self.supported,
            "operators": [asdict(use) for use in self.operators],
            "unsupported": [asdict(node) for node in self.unsupported],
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
            "param_count": self.param_count,
            "flops_forward": self.flops_forward,
            "layers": [layer.to_mapping() for layer in self.layers],
            "estimate": self.estimate.to_mapping() if self.estimate else None,
        }


def check(graph: Graph, recipe: Recipe | None = None, target: str | Target = "host") -> CheckReport:
    """Check an imported model. Raises RecipeError where the recipe does not fit it, TargetError for an unknown one."""
    device = get_target(target) if isinstance(target, str) else target
    counts: dict[str, int] = {}
    for node in graph.nodes:
        counts[node.op] = counts.get(node.op, 0) + 1
    operators = tuple(OperatorUse(op, count, "supported") for op, count in sorted(counts.items()))
    trained = with_adapters(graph, recipe.lora) if recipe and recipe.lora else graph
    scheme = resolve(recipe, trained) if recipe else None
    return CheckReport(
        supported=True,
        operators=operators,
        unsupported=(),
        inputs={value.name: str(value.type) for value in graph.inputs},
        outputs={name: str(value.type) for name, value in graph.outputs.items()},
        layers=layers_of(trained, scheme),
        param_count=sum(value.type.size for value in graph.params),
        flops_forward=sum(node_flops(node) for node in graph.nodes),
        estimate=estimate(graph, recipe, device) if recipe else None,
    )


def check_file(
    path: str | Path,
    recipe: Recipe | None = None,
    target: str | Target = "host",
    dims: Mapping[str, int] | None = None,
    batch: int | None = None,
) -> CheckReport:
    """Check an ONNX file; unsupported operators are part of the report, not an error. Raises ModelError,
    DynamicShapeError, RecipeError or TargetError."""
    found = survey(path, _trained_patterns(recipe) if recipe else [])
    if found.unsupported:
        return CheckReport(False, found.operators, found.unsupported, {}, {}, (), 0, 0, None)
    wanted = batch if batch is not None else recipe.batch if recipe else None
    graph = load(path, dims, wanted)
    try:
        report = check(graph, recipe, target)
    except UnsupportedOperatorError as error:
        # The model can be imported, but a gradient or a kernel of the training step is missing.
        missing = UnsupportedNode("", "", str(error), "in the training step")
        report = check(graph, None, target)
        return CheckReport(**{**vars(report), "supported": False, "unsupported": (missing,)})
    return CheckReport(**{**vars(report), "operators": found.operators})


def _trained_patterns(recipe: Recipe) -> list[str]:
    """Globs of the parameters that gradients must reach: those of the rules, and the weights with adapters."""
    adapted = [form for pattern in recipe.lora.params for form in (pattern, f"{pattern}.weight")] if recipe.lora else []
    return [*(rule.params for rule in recipe.update), *adapted]


def estimate(graph: Graph, recipe: Recipe, target: Target, threads: int | None = None) -> Estimate:
    """Plan the training step, which takes seconds, and read off what it takes."""
    planned = plan_programs(graph, recipe, target, threads)
    calls = [call for program in planned.programs.values() for step in program.steps for call in step.lowered.calls]
    figures = summary(planned, kernels=len({call.kernel.symbol for call in calls}))
    fits = figures["predicted_peak_bytes"] <= target.ram_bytes * 3 // 4
    return Estimate(target.name, planned.threads, target.ram_bytes, fits, figures)
