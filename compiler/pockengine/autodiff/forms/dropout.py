"""Dropout on and off. An imported model holds dropout as evaluation computes it, a node that does nothing; training
turns it on where the recipe says so, with a generator that is part of the step's state."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ...errors import RecipeError
from ...ir import Builder, Graph, Node, Value, verify
from ...ops import Emitter, Rewriting, expand
from ..generator import generator_of


def without_dropout(model: Graph) -> Graph:
    """The model as evaluation computes it, so that no pass ever meets an inactive dropout.

    %y = dropout(%x) {p: 0.1}   ->   %x
    """

    def rule(e: Emitter, node: Node) -> Sequence[Value] | None:
        if node.op == "dropout" and len(node.inputs) == 1:
            return node.inputs
        if node.op == "attention" and "dropout" in node.attrs:
            attrs = {key: value for key, value in node.attrs.items() if key != "dropout"}
            return e.multi("attention", node.inputs, **attrs)
        return None

    walk = Rewriting(model)
    for node in walk:
        walk.replace(rule(walk.emitter, node))
    return walk.graph()


def with_dropout(model: Graph) -> Graph:
    """Each dropout draws from the state `generator`, under a number of its own; a run advances the generator by 1.
    Raises RecipeError where the model has none.

    %y = dropout(%x) {p: 0.1}   ->   %y = dropout(%x, %generator) {p: 0.1, site: 3}
    """
    model = expand(model, [node for node in model.nodes if node.op == "attention" and node.attrs.get("dropout")])
    if not any(node.op == "dropout" for node in model.nodes):
        raise RecipeError(
            "the recipe says 'dropout: true', but the model has no dropout (an export in evaluation mode loses it; "
            "from_torch keeps it): set 'dropout: false'"
        )
    for part, kind in model.draws.items():
        raise RecipeError(
            f"the recipe says 'dropout: true', but in training mode '{part}' ({kind}) draws random numbers that are no "
            "dropout (a layer left out, noise, a random mask), which the model does not have: set 'dropout: false', or "
            "take them out of the module"
        )
    builder = Builder.extend(model)
    generator = generator_of(builder)
    sites = itertools.count()

    def rule(e: Emitter, node: Node) -> Sequence[Value] | None:
        if node.op != "dropout":
            return None
        return e.multi("dropout", (node.inputs[0], generator), **node.attrs, site=next(sites))

    walk = Rewriting(builder.finish())
    for node in walk:
        walk.replace(rule(walk.emitter, node))
    return verify(walk.graph(), "dropout")
