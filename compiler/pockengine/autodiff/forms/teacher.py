"""The model as its own teacher: what it gave before it was trained, computed again in each step.

Why in the step, and not once over the dataset: the scores of a dataset take samples x scores on the device's disk (of
a language model gigabytes), and are wrong where samples are changed on their way (augmentation). In the step they take
the contents of what is trained a second time, as constants, and the layers that depend on it once more; all before the
first trained parameter is shared. Their activations are free again at once, as nothing flows back through them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...ir import Builder, Graph, Value
from ...recipe import Recipe, Scheme, running_statistics
from .dropout import without_dropout


@dataclass(frozen=True)
class Untrained:
    """A model before it is trained.

    model    as evaluation computes it: without dropout, batch norms by their running statistics
    changes  names of the parameters that training changes"""

    model: Graph
    changes: frozenset[str]

    @classmethod
    def of(cls, model: Graph, recipe: Recipe, scheme: Scheme) -> Untrained:
        """Of a model to be trained."""
        names: Iterable[str] = scheme.trained()
        if recipe.batch_norm == "train":
            names = [*names, *(value.name for value in running_statistics(model))]
        return cls(without_dropout(model) if recipe.dropout else model, frozenset(names))

    def output(self, builder: Builder, name: str) -> Value:
        """Appends what the output `name` depends on, as it was before training, and returns it.

        %y = matmul(%h, %w)   ->   %y = matmul(%h, %w); %y.1 = matmul(%h, const w)

        A node is shared where the builder has the very same one, and all it reads is shared."""
        wanted = self._needed(self.model.outputs[name])
        before: dict[Value, Value] = {}
        for value in self.model.params:
            if value.name in self.changes and value in wanted:
                before[value] = builder.const(self.model.data[value.name])
        for value, array in self.model.consts.items():
            if value in wanted and value not in builder.consts:
                before[value] = builder.const(array)
        origin = builder.origin
        for node in self.model.nodes:
            shared = builder.producers.get(node.outputs[0]) is node and before.keys().isdisjoint(node.inputs)
            if shared or wanted.isdisjoint(node.outputs):
                continue
            builder.origin = node.origin
            inputs = [before.get(value, value) for value in node.inputs]
            types = [value.type for value in node.outputs]
            made = builder.node(node.op, inputs, types, node.attrs, node.body, [value.name for value in node.outputs])
            before.update(zip(node.outputs, made, strict=True))
        builder.origin = origin
        found = self.model.outputs[name]
        return before.get(found, found)

    def _needed(self, output: Value) -> set[Value]:
        """Values that the output depends on."""
        needed = {output}
        for node in reversed(self.model.nodes):
            if not needed.isdisjoint(node.outputs):
                needed.update(node.inputs)
        return needed
