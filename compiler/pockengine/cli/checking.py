"""What `pock check` shows a person."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from ..check import GIVEN, CheckReport, Compared, Estimate
from ..frontends import UnsupportedNode
from ..recipe import ALL, Layer
from ..targets import HOST_MEMORY, Memory
from .console import count, figures, pairs, size


def show_check(report: CheckReport) -> None:
    """Operators, what is in the way, layers, and what training takes."""
    console = Console()
    operators = _table("Operators", "operator", "count", "status")
    for use in report.operators:
        operators.add_row(use.operator, str(use.count), use.status)
    console.print(operators)
    if report.missing_weights:
        console.print("\nThe file of the weights is missing: this is about the graph alone.", highlight=False)
    for node in report.unsupported:
        console.print(_in_the_way(node), highlight=False, soft_wrap=True)
    if report.layers:
        console.print(_layer_table(report.layers))
    if report.recipes:
        show_compared(report.recipes)
    if report.estimate:
        console.print(pairs(_estimate_rows(report.estimate)))


def show_compared(recipes: Compared) -> None:
    """What training each of several recipes takes, and on which devices it fits."""
    console = Console()
    console.print(_recipe_table(recipes))
    console.print(_device_table(recipes))
    for name, found in recipes.items():
        if isinstance(found, str):
            console.print(f"\n{name} is left out: {found}", highlight=False, soft_wrap=True)


def _in_the_way(node: UnsupportedNode) -> str:
    if not node.operator:
        return f"\nnot supported: {node.position}"
    shapes = f" of {node.shapes}" if node.shapes else ""
    return (
        f"\nnot supported: {node.operator}{shapes} (node '{node.node}'), needed for {node.needed_for}; "
        f"it lies {node.position}\nwhat to do: {node.advice}"
    )


def _table(title: str, *columns: str) -> Table:
    return Table(*columns, box=None, title=title, title_justify="left")


def _layer_table(layers: tuple[Layer, ...]) -> Table:
    table = _table(
        "\nLayers", "layer", "shape", "parameters", "operations", "share", "saved for backward", "share", "trained"
    )
    for layer in layers:
        sizes = layer.to_mapping()["param_count"]
        trained = [_trained(p.name.rpartition(".")[2], p.trained, p.channels) for p in layer.parameters]
        table.add_row(
            layer.name,
            "×".join(map(str, layer.shape)),
            count(sizes),
            count(layer.flops),
            f"{layer.share:.1%}",
            size(layer.saved_bytes) if layer.saved_bytes else "",
            f"{layer.saved_share:.1%}" if layer.saved_bytes else "",
            " ".join(text for text in trained if text),
        )
    return table


def _trained(name: str, what: str, channels: int | None) -> str:
    if channels is not None:
        return f"{name}[{channels}]"
    return name if what == ALL else ""


def _recipe_table(recipes: Compared) -> Table:
    table = _table(
        "\nTraining",
        "what is trained",
        "peak memory",
        "activations and gradients",
        "optimizer state",
        "operations",
        "numbers trained",
    )
    for name, found in recipes.items():
        if isinstance(found, Estimate):
            summary = found.summary
            table.add_row(
                _NAMES.get(name, name),
                size(summary["predicted_peak_bytes"]),
                size(summary["arena_bytes"]),
                size(summary["state_bytes"]),
                count(sum(summary["flops"].values())),
                count(summary["trained_parameters"]),
            )
    return table


_NAMES = {"full": "all", "head": "the head", "bias": "the biases", GIVEN: "as the recipe says"}


def _device_table(recipes: Compared) -> Table:
    estimates = {name: found for name, found in recipes.items() if isinstance(found, Estimate)}
    table = _table("\nFits", "target", "memory", *(_NAMES.get(name, name) for name in estimates))
    for index, fit in enumerate(next(iter(estimates.values())).devices if estimates else ()):
        row = ["yes" if found.devices[index].fits else "no" for found in estimates.values()]
        table.add_row(fit.target, _memory(fit.memory), *row)
    return table


def _estimate_rows(estimate: Estimate) -> dict[str, str]:
    fit, verdict = estimate.fit, "fits" if estimate.fit.fits else "does not fit"
    return {
        "\ntarget": f"\n{fit.target}, {estimate.threads} threads, {_memory(fit.memory)}: {verdict}",
        **figures(estimate.summary),
        "expected step time": f"{estimate.step_ms:.3g} ms, not measured",
    }


def _memory(memory: Memory) -> str:
    """Its size, and its name where it is not the processor's own."""
    return size(memory.nbytes) + (f" of '{memory.name}'" if memory.name != HOST_MEMORY else "")
