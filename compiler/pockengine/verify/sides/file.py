"""An ONNX file without the module it came from: its outputs against another runtime of ONNX, its gradients against
finite differences, and our machine code against the interpreter in float64.

What this cannot see: whether the file computes and differentiates as the module does (a file knows no `detach`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ...autodiff import LOSS, Untrained, train_graph
from ...autodiff.objective import with_loss
from ...errors import ModelError
from ...interp import Kernels, environment, evaluate, step
from ...ir import Array, Graph
from ...recipe import Recipe, Scheme
from ..reference import kernels, widened
from .ours import OF_GRADIENTS
from .steps import Trained

_OUTPUTS = 1e-3
"""Of an output, relative to its largest element."""
_SLOPES = 1e-3
"""Of a derivative in a random direction, relative to the size that it may have."""
_STRIDE = 1e-5
"""Of a finite difference, relative to the parameters' size: in float64 neither curvature nor rounding shows."""
DIRECTIONS = 3


def by_interpreter(
    model: Graph, recipe: Recipe, scheme: Scheme, batches: Sequence[Mapping[str, Array]], double: bool
) -> Trained:
    """The steps of the training graph, evaluated operator by operator. Raises ModelError for accumulation, which is two
    programs."""
    if recipe.accumulate > 1:
        raise ModelError("a file alone is verified without 'accumulate': leave it out, or give the module with --torch")
    quick = kernels()
    tensors = widened(model.data) if double else dict(model.data)
    feeds = [widened(batch) if double else dict(batch) for batch in batches]
    gradients = dict(tensors)
    step(train_graph(model, recipe.with_(optimizer=OF_GRADIENTS), scheme), feeds[0], gradients)
    graph = train_graph(model, recipe, scheme)
    wanted = {name for name, array in tensors.items() if array.dtype.kind == "f"}
    losses = [_step(graph, batch, tensors, quick) for batch in feeds]
    found = {name: gradients[f"{name}.momentum"] for name in scheme.trained()}
    return Trained(tuple(losses), {name: tensors[name] for name in wanted}, found)


def _step(graph: Graph, feeds: Mapping[str, Array], tensors: dict[str, Array], kernels: Kernels) -> float:
    values = environment(graph, {**tensors, **feeds}, kernels)
    tensors.update({target.name: values[new] for target, new in graph.updates.items()})
    return float(values[graph.outputs[LOSS]])


def wrong_outputs(path: Path, graph: Graph, feeds: Mapping[str, Array]) -> tuple[list[str], str]:
    """A sentence for each output that is not what another runtime of ONNX gives for the file, and that runtime's
    name. Raises ModelError where it cannot run the file."""
    inputs = {value.name: feeds[value.name] for value in graph.inputs}
    found = evaluate(graph, inputs, kernels())
    try:
        expected, runtime = _run(path, inputs, list(found))
    except Exception as error:  # of two libraries, which have no common class of errors
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"'{path}' runs in no other runtime of ONNX: {reason}") from None
    problems = []
    for name, theirs in expected.items():
        scale = float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)) if theirs.size else 0.0
        with np.errstate(invalid="ignore"):
            apart = np.abs(found[name].astype(np.float64) - theirs.astype(np.float64))
        same = (found[name] == theirs) | (np.isnan(found[name]) & np.isnan(theirs))
        if not np.all(same | (apart <= _OUTPUTS * scale)):
            problems.append(f"the output '{name}' is off by {np.nanmax(apart):.2g} where values are up to {scale:.2g}")
    return problems, runtime


def _run(path: Path, inputs: Mapping[str, Array], outputs: list[str]) -> tuple[dict[str, Array], str]:
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        results = ReferenceEvaluator(str(path)).run(outputs, dict(inputs))
        return dict(zip(outputs, map(np.asarray, results), strict=True)), "ONNX's reference"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    known = {value.name for value in session.get_inputs()}
    results = session.run(outputs, {name: x for name, x in inputs.items() if name in known})
    return dict(zip(outputs, map(np.asarray, results), strict=True)), "onnxruntime"


def wrong_slopes(
    model: Graph, recipe: Recipe, feeds: Mapping[str, Array], gradients: Mapping[str, Array], seed: int
) -> list[str]:
    """A sentence where the gradients (in float64) are not the slopes of the loss in random directions through all that
    is trained, naming the tensors whose own slope differs."""
    builder, values = with_loss(model, recipe, Untrained(model, frozenset(gradients)))
    builder.outputs = {LOSS: values.loss}
    graph, data, quick = builder.finish(), widened(model.data), kernels()
    batch, rng = widened(feeds), np.random.default_rng(seed)

    def loss(moved: Mapping[str, Array], sign: float) -> float:
        shifted = {name: data[name] + sign * _STRIDE * direction for name, direction in moved.items()}
        return float(evaluate(graph, {**data, **batch, **shifted}, quick)[LOSS])

    def differs(names: Sequence[str]) -> bool:
        directions = {name: _direction(rng, data[name]) for name in names}
        slope = (loss(directions, 1.0) - loss(directions, -1.0)) / (2 * _STRIDE)
        ours = sum(float(np.vdot(gradients[name], direction)) for name, direction in directions.items())
        size = sum(float(np.sum((gradients[name] * direction) ** 2)) for name, direction in directions.items()) ** 0.5
        return not abs(slope - ours) <= _SLOPES * max(abs(slope), size) + 1e-7 * abs(loss({}, 0.0))

    whole = [name for name in gradients if gradients[name].shape == data[name].shape]
    if not any(differs(whole) for _ in range(DIRECTIONS)):
        return []
    bad = [name for name in whole if differs([name])]
    named = ", ".join(f"'{name}'" for name in bad[:3]) or "all of them together"
    return [f"the gradients are not the slopes of the loss, by finite differences: {named}"]


def _direction(rng: np.random.Generator, parameter: Array) -> Array:
    size = float(np.sqrt(np.mean(parameter**2))) if parameter.size else 0.0
    direction: Array = np.asarray(rng.standard_normal(parameter.shape))
    return direction * (size or 1.0)
