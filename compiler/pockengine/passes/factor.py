"""A gradient becomes one product: of the gradient from above, and of what the forward part knows."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Graph, Node, Value
from ..ops import Emitter, Rewriting, is_kind, is_view


def factor_gradients(graph: Graph) -> Graph:
    """Multiply what only depends on forward values first, so that it can be made in the forward part and kept as one
    tensor; sums of products with the same gradient become one product.

        mul(mul(%dy, %a), %b)                  ->   mul(%dy, mul(%a, %b))
        add(mul(%dy, %a), mul(%dy, %b))        ->   mul(%dy, add(%a, %b))
    """
    return _Factoring(graph).run()


class _Factoring:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.users = graph.users()
        self.early: dict[Value, bool] = {}
        self.olds = iter(graph.nodes)

    def run(self) -> Graph:
        walk = Rewriting(self.graph)
        for node in walk:
            walk.replace(self._rule(walk.emitter, node))
        return walk.graph()

    def _rule(self, e: Emitter, node: Node) -> Sequence[Value] | None:
        old = next(self.olds)
        if node.phase != "backward" or node.op not in ("mul", "add", "sub", "neg"):
            return None
        if all(self._is_early(e, value) for value in node.inputs):
            return None
        factors = [
            self._factors(e, new, node) if len(self.users[before]) == 1 else None
            for before, new in zip(old.inputs, node.inputs, strict=True)
        ]
        return self._product(e, node, factors)

    def _product(self, e: Emitter, node: Node, factors: list[tuple[Value, Value] | None]) -> Sequence[Value] | None:
        if node.op == "neg" and factors[0] is not None:
            gradient, known = factors[0]
            return [e.mul(gradient, e.op("neg", known))]
        if node.op in ("add", "sub") and factors[0] is not None and factors[1] is not None:
            (gradient, left), (other, right) = factors[0], factors[1]
            return [e.mul(gradient, e.op(node.op, left, right))] if gradient is other else None
        if node.op == "mul":
            for factor, known in ((factors[0], node.inputs[1]), (factors[1], node.inputs[0])):
                if factor is not None and self._is_early(e, known):
                    return [e.mul(factor[0], e.mul(factor[1], known))]
        return None

    def _factors(self, e: Emitter, value: Value, reader: Node) -> tuple[Value, Value] | None:
        """(gradient, what is known) when `value` is their product, all of the reader's shape but for what is known."""
        made = e.builder.producers.get(value)
        if made is None or made.op != "mul" or made.phase != "backward" or value.type != reader.output.type:
            return None
        for gradient, known in (made.inputs, made.inputs[::-1]):
            if gradient.type == value.type and self._is_early(e, known) and not self._is_early(e, gradient):
                return gradient, known
        return None

    def _is_early(self, e: Emitter, value: Value) -> bool:
        """Whether it is made of forward values alone, element by element."""
        waiting = [value]
        while waiting:
            current = waiting[-1]
            made = e.builder.producers.get(current)
            if current in self.early:
                waiting.pop()
            elif made is None or made.phase == "forward":
                self.early[current] = True
            elif not is_view(made) and not is_kind(made, "elementwise"):
                self.early[current] = False
            else:
                missing = [operand for operand in made.inputs if operand not in self.early]
                if not missing:
                    self.early[current] = all(self.early[operand] for operand in made.inputs)
                waiting += missing
        return self.early[value]
