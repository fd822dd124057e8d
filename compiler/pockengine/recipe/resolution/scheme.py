"""From rules and a model to a scheme: for each parameter, whether all of it, some channels, or nothing is trained."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from ...errors import PockError, RecipeError, UnsupportedOperatorError, nearest
from ...ir import Array, Graph, Node, Value
from ...ops import passes_gradient, statistics_of
from ..lora import is_adapter
from ..losses.kinds import OwnLoss
from ..losses.own import LossGraph
from ..losses.reading import read_outputs
from ..recipe import Recipe
from ..rules import ALL, FROZEN, UpdateRule
from .channels import channel_axis

_BLOCK = re.compile(r"(?:.*?\.)?\d+(?=\.)")


@dataclass(frozen=True)
class Channels:
    """Only these indices along `axis` are trained; ascending."""

    axis: int
    indices: tuple[int, ...]


Update = str | Channels
"""`FROZEN`, `ALL`, or Channels."""


@dataclass(frozen=True)
class Scheme:
    """What is trained of every parameter of one graph.

    updates   parameter name -> what is trained of it, in model order
    left_out  parameter that a rule's pattern matches and that is not trained -> why, as the end of a sentence"""

    updates: Mapping[str, Update]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def of(self, name: str) -> Update:
        """What is trained of the parameter; FROZEN for a name the scheme does not know."""
        return self.updates.get(name, FROZEN)

    def trained(self) -> tuple[str, ...]:
        """Names of the parameters of which anything is trained, in model order."""
        return tuple(name for name, update in self.updates.items() if update != FROZEN)


def parameter_order(graph: Graph) -> tuple[Value, ...]:
    """Parameters in model order: by first use in the graph; those never used come last."""
    params = set(graph.params)
    used = dict.fromkeys(value for node in graph.nodes for value in node.inputs if value in params)
    return (*used, *(value for value in graph.params if value not in used))


def running_statistics(graph: Graph) -> set[Value]:
    """Means and variances of batch norms: updated by the forward pass, never by an optimizer."""
    return {value for node in graph.nodes for value in statistics_of(node)}


def reaching(graph: Graph, outputs: Iterable[Value]) -> set[Value]:
    """Every floating-point value to which a gradient of one of `outputs` passes, themselves included."""
    found = set(outputs)
    for node in reversed(graph.nodes):
        if any(value in found for value in node.outputs):
            for index, value in enumerate(node.inputs):
                if value.type.dtype.is_float and passes_gradient(node, index):
                    found.add(value)
    return found


def resolve(recipe: Recipe, graph: Graph) -> Scheme:
    """Apply the rules in order, first match wins; adapters of `lora` are trained whatever the rules say. Patterns leave
    out what the user's framework does not train either; by its whole name a rule can train it all the same. `graph` is
    the imported forward graph, its adapters inserted, with its parameters' data.

    Raises RecipeError for a pattern that matches no parameter, a running statistic named exactly, and channels of a
    tensor that has none, and a batch that is not the model's."""
    _check_batch(recipe, graph)
    order = parameter_order(graph)
    statistics = running_statistics(graph)
    reached = reaching(graph, [graph.outputs[name] for name in read_outputs(recipe.loss, graph.outputs)])
    trainable = [value for value in order if value not in statistics]
    candidates = [value for value in trainable if value in reached]
    updates: dict[str, Update] = {value.name: FROZEN for value in order}
    claimed: set[Value] = set()
    if recipe.lora is not None:
        adapters = {value for value in candidates if is_adapter(value.name)}
        updates.update((value.name, ALL) for value in candidates if value in adapters)
        candidates = [value for value in candidates if value not in adapters]
    for rule in recipe.update:
        for value in _matches(rule, candidates, graph):
            if value not in claimed:
                claimed.add(value)
                updates[value.name] = _update(rule, value, graph)
    left_out = {
        value.name: reason
        for value in trainable
        if value not in claimed
        and (reason := _why_not(value, reached, graph))
        and any(rule.selects(value.name) for rule in recipe.update)
    }
    return Scheme(updates, left_out)


def _why_not(value: Value, reached: set[Value], graph: Graph) -> str:
    """Why patterns leave a parameter out, as the end of a sentence; nothing where they do not."""
    if value.name in graph.untrained:
        return graph.untrained[value.name]
    return "" if value in reached else "gets no gradient of the loss"


def gradient_stop(graph: Graph, param: Value) -> Node | None:
    """The first node that lets no gradient through on the way from a parameter to the results, if there is one."""
    found = {param}
    for node in graph.nodes:
        read = [index for index, value in enumerate(node.inputs) if value in found]
        if read:
            floats = [value for value in node.outputs if value.type.dtype.is_float]
            if not floats or not any(passes_gradient(node, index) for index in read):
                return node
            found.update(floats)
    return None


def without_gradient(graph: Graph, param: Value) -> PockError:
    """The error for a parameter that no gradient reaches: it names what lets none through, if there is something."""
    stop = gradient_stop(graph, param)
    if stop is not None and stop.op != "stop_gradient":
        return no_gradient(stop, f"'{param.name}'")
    through = f": '{stop.op}' (node '{stop.origin}') lets no gradient through" if stop is not None else ""
    return RecipeError(f"the loss does not depend on the parameter '{param.name}', so it cannot be trained{through}")


def no_gradient(node: Node, trained: str) -> UnsupportedOperatorError:
    """The error for a node without a gradient between the loss and what is trained."""
    where = f" (node '{node.origin}')" if node.origin else ""
    return UnsupportedOperatorError(
        f"operator '{node.op}'{where} has no gradient, and it stands between the loss and {trained}; "
        "freeze what lies before it",
        node.op,
        node.origin,
        ", ".join(str(value.type) for value in node.inputs),
        "train only parameters that lie after it",
    )


def batch_of(recipe: Recipe, graph: Graph) -> int:
    """Samples of a batch: the inputs', or fewer where an output that a loss reads has one row for several of theirs (a
    model that packs its images into one sequence)."""
    plain = [loss for loss in recipe.loss if not isinstance(loss, OwnLoss | LossGraph)]
    shapes = [graph.outputs[name].type.shape for name in read_outputs(plain, graph.outputs)]
    return math.gcd(graph.batch, *(shape[0] for shape in shapes if shape and shape[0] and graph.batch % shape[0] == 0))


def _check_batch(recipe: Recipe, graph: Graph) -> None:
    for value in graph.inputs:
        if not value.type.rank:
            raise RecipeError(
                f"the input '{value.name}' is one number and has no axis of samples: make it a constant of the model, "
                "or give it one number a sample"
            )
    batch = batch_of(recipe, graph)
    if recipe.batch is not None and graph.inputs and recipe.batch != batch:
        raise RecipeError(
            f"the recipe says batch {recipe.batch}, but the model was imported for a batch of {batch}: "
            f"import it with batch={recipe.batch}, or leave the recipe's batch out"
        )


def _matches(rule: UpdateRule, candidates: list[Value], graph: Graph) -> list[Value]:
    """The parameters a rule is about, in model order."""
    named = [value for value in candidates if value.name == rule.params]
    candidates = [value for value in candidates if value.name not in graph.untrained]
    found = named or [value for value in candidates if fnmatchcase(value.name, rule.params)]
    if not found:
        left = {value.name for value in running_statistics(graph)} | graph.untrained.keys()
        for value in graph.params:
            if fnmatchcase(value.name, rule.params) and value.name not in left:
                raise without_gradient(graph, value)
        raise RecipeError(_no_match(rule.params, candidates, graph))
    if rule.last_blocks is not None:
        found = _from(found, candidates, _blocks_start(rule.last_blocks, candidates))
    if rule.head:
        found = _from(found, candidates, _head_start(candidates, graph))
    if rule.last is not None:
        found = found[-rule.last :]
    return found


def _no_match(pattern: str, candidates: list[Value], graph: Graph) -> str:
    names = [value.name for value in candidates]
    statistics = {value.name for value in running_statistics(graph)}
    if pattern in statistics:
        return f"'{pattern}' is a running statistic of a batch norm; 'batch_norm: train' updates it, no rule can"
    if any(fnmatchcase(name, pattern) for name in statistics):
        return f"the pattern '{pattern}' matches only running statistics of batch norms, which are not trained"
    if pattern in graph.untrained:
        return f"'{pattern}' cannot be trained: it {graph.untrained[pattern]}"
    left_out = [f"'{name}' {why}" for name, why in graph.untrained.items() if fnmatchcase(name, pattern)]
    if left_out:
        return f"the pattern '{pattern}' matches nothing that is trained: {left_out[0]}"
    plain = pattern.replace("*", "").strip(".")
    contains = [name for name in names if plain and plain in name]
    if contains:
        return f"the pattern '{pattern}' matches no parameter (did you mean '*{plain}*', as in '{contains[0]}'?)"
    return f"the pattern '{pattern}' matches no parameter{nearest(pattern, names)}"


def _from(found: list[Value], candidates: list[Value], start: int) -> list[Value]:
    tail = set(candidates[start:])
    return [value for value in found if value in tail]


def _blocks_start(count: int, candidates: list[Value]) -> int:
    """Where the last `count` numbered blocks begin. A block is a name up to its first number: `encoder.layer.11`."""
    starts: dict[str, int] = {}
    for index, value in enumerate(candidates):
        match = _BLOCK.match(value.name)
        if match:
            starts.setdefault(match[0], index)
    if not starts:
        raise RecipeError("last_blocks needs numbered blocks such as 'layer.3.…', and the model's parameters have none")
    if count > len(starts):
        raise RecipeError(f"last_blocks is {count}, but the model has only {len(starts)} numbered blocks")
    return sorted(starts.values())[-count]


def _head_start(candidates: list[Value], graph: Graph) -> int:
    """The last layer: from the last weight (a parameter of rank 2 or more) on."""
    weights = [index for index, value in enumerate(candidates) if value.type.rank >= 2]
    if not weights:
        raise RecipeError("the model has no weight of rank 2 or more, so it has no head; name the parameters instead")
    return weights[-1]


def _update(rule: UpdateRule, value: Value, graph: Graph) -> Update:
    if rule.channels is None:
        return ALL
    axis = channel_axis(graph, value)
    size = value.type.shape[axis]
    if isinstance(rule.channels, tuple):
        if rule.channels[-1] >= size:
            raise RecipeError(
                f"'{value.name}' has {size} channels, numbered from 0, so channel {rule.channels[-1]} cannot be trained"
            )
        return ALL if len(rule.channels) == size else Channels(axis, rule.channels)
    if isinstance(rule.channels, int):
        if rule.channels > size:
            raise RecipeError(f"'{value.name}' has {size} channels, so {rule.channels} of them cannot be trained")
        count = rule.channels
    else:
        count = max(1, round(rule.channels * size))
    if count == size:
        return ALL
    return Channels(axis, most_important(magnitudes(graph.data[value.name], axis), count))


def magnitudes(weight: Array, axis: int) -> Array:
    """The squared L2 norm of each slice along `axis`: f64 [channels]."""
    others = tuple(other for other in range(weight.ndim) if other != axis)
    squares: Array = np.sum(np.square(weight.astype(np.float64)), axis=others)
    return squares


def most_important(importance: Array, count: int) -> tuple[int, ...]:
    """The indices of the `count` largest of `importance` [channels], ascending; ties go to the lower index."""
    ranked = np.argsort(-importance, kind="stable")[:count]
    return tuple(int(index) for index in np.sort(ranked))
