"""Logits of a large vocabulary, some rows at a time, so that they are never all in memory.

The loss is the end of the graph, so each chunk's gradient is known at once. Before the next chunk's logits exist, it
becomes the gradient of the hidden state, and a term of the weight's gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..ir import Builder, Graph, Node, Value, substitute
from ..ops import Combination, Emitter, combination_of, is_kind, is_view, record_of
from ..ops.registry import along, broadcasts, reduced_axes
from ..ops.split import joined

LEAST_BYTES = 16 << 20
"""Logits above this size are chunked, to chunks of about this size."""
FINE_BYTES = 2 << 20
"""The same where memory is short."""
WIDE_BYTES = 128 << 20
"""The same on a GPU: a chunk must be work for all its multiprocessors, and each reads the whole weight."""
LEAST_ROWS, ROW_MULTIPLE = 64, 16
"""A chunk has at least so many rows: each reads the whole weight, and packs it."""
ROWS, TERM = "rows", "term"
"""What a value is: for each row something of its own, or a sum over rows to which each chunk gives a term."""


def chunk_rows(graph: Graph) -> Graph:
    """Compute products of many rows that end in results of each row, or in sums over rows, a chunk of rows at a time.

    %l = matmul(%h, %w); %y = f(%l)   ->   %y = concat(f(matmul(%h[0:128], %w)), f(matmul(%h[128:256], %w)), …)
    """
    return _chunked(graph, LEAST_BYTES)


def chunk_rows_finely(graph: Graph) -> Graph:
    """As `chunk_rows`, in smaller chunks and of smaller products.

    %l = matmul(%h, %w); %y = f(%l)   ->   %y = concat(f(matmul(%h[0:64], %w)), f(matmul(%h[64:128], %w)), …)
    """
    return _chunked(graph, FINE_BYTES)


def chunk_rows_widely(graph: Graph) -> Graph:
    """As `chunk_rows`, in larger chunks.

    %l = matmul(%h, %w); %y = f(%l)   ->   %y = concat(f(matmul(%h[0:1024], %w)), f(matmul(%h[1024:2048], %w)), …)
    """
    return _chunked(graph, WIDE_BYTES)


def _chunked(graph: Graph, limit: int) -> Graph:
    for value in [node.outputs[0] for node in graph.nodes if _is_large_product(node, limit)]:
        product = graph.producers().get(value)
        part = _Part(graph, product) if product else None
        if part and part.found:
            rows = rows_of_chunk(part.product, limit)
            graph = _Writer(part, rows).write() if part.pays(rows) else graph
    return graph


def rows_of_chunk(product: Node, limit: int) -> int:
    """How many rows each chunk has, but for the last."""
    rows = product.output.type.shape[0]
    count = math.ceil(product.output.type.nbytes / limit)
    return max(LEAST_ROWS, math.ceil(rows / count / ROW_MULTIPLE) * ROW_MULTIPLE)


def _is_large_product(node: Node, limit: int) -> bool:
    if node.op != "matmul" or node.attrs["trans_a"]:
        return False
    type = node.output.type
    return type.rank == 2 and type.shape[0] > 1 and type.nbytes > limit


def leading(shape: Sequence[int], rows: int) -> int | None:
    """How many leading axes make up the rows, if some do."""
    size = 1
    for axis, extent in enumerate(shape):
        size *= extent
        if size == rows:
            return axis + 1
    return None


def _padded(value: Value, rank: int) -> tuple[int, ...]:
    return (1,) * (rank - value.type.rank) + value.type.shape


class _Part:
    """The part of a graph around a product that can be computed some rows at a time, and what each value in it is.

    found  whether there is one: every reader of logits is in it, and it reduces them"""

    def __init__(self, graph: Graph, product: Node) -> None:
        self.graph = graph
        self.product = product
        self.rows = product.output.type.shape[0]
        self.wide = product.output.type.size
        self.made = graph.producers()
        self.users = graph.users()
        self.kinds: dict[Value, str] = {}
        self.nodes: set[Node] = set()
        self.found = self._grow() and self._closed()

    def is_wide(self, value: Value) -> bool:
        return value.type.size >= self.wide and self.kinds.get(value) == ROWS

    def inner(self) -> list[Node]:
        """The part's nodes in order."""
        return [node for node in self.graph.nodes if node in self.nodes]

    def results(self) -> list[Value]:
        """What the rest of the graph reads."""
        needed = set(self.graph.results())
        return [
            node.output
            for node in self.inner()
            if node.output in needed or any(user not in self.nodes for user in self.users[node.output])
        ]

    def pays(self, rows: int) -> bool:
        """Whether the logits are larger than those of a chunk and the sums that would have to be kept meanwhile."""
        sums = sum(value.type.nbytes for value in self.results() if self.kinds[value] == TERM)
        nbytes = self.product.output.type.nbytes
        return nbytes > nbytes // self.rows * rows + sums

    def _grow(self) -> bool:
        """Collect the nodes that make or read wide values, and all between them; again for each wide operand that is
        made beside, until there is no new one."""
        beside: set[Node] = set()
        while self._spread(beside):
            more = self._wide_operands()
            if not more:
                return True
            beside |= more
        return False

    def _spread(self, beside: set[Node]) -> bool:
        """Collect the nodes from the product and those beside on; False where one of them must be whole."""
        self.nodes = {self.product, *beside}
        self.kinds = {node.outputs[0]: ROWS for node in self.nodes}
        after = set(self.kinds)
        for node in self.graph.nodes:
            if node in self.nodes or not any(value in after for value in node.inputs):
                continue
            after.update(node.outputs)
            kind = self.kind(node)
            reads = any(self.is_wide(value) for value in node.inputs)
            if kind is None and reads:
                return False
            if kind is not None:
                self.kinds[node.output] = kind
                if reads or self.is_wide(node.output):
                    self.nodes.add(node)
        self._between(after)
        return all(node.outputs[0] in self.kinds for node in self.nodes)

    def _between(self, after: set[Value]) -> None:
        """Add what lies on a path from one of the nodes to another."""
        needed = {value for node in self.nodes for value in node.inputs if value in after}
        for node in reversed(self.graph.nodes):
            if any(value in needed for value in node.outputs) and any(value in after for value in node.outputs):
                self.nodes.add(node)
                needed.update(value for value in node.inputs if value in after)

    def _wide_operands(self) -> set[Node]:
        """What makes wide operands of the part outside of it, such as the labels as one number for each class."""
        sources = {self.made[value] for node in self.nodes for value in node.inputs if value in self.made}
        views = {source: self.made.get(source.inputs[0]) for source in sources if is_view(source)}
        makers = {source: views.get(source, source) for source in sources - self.nodes}
        return {source for source, maker in makers.items() if maker and self._makes_rows(maker)}

    def _makes_rows(self, node: Node) -> bool:
        wide = is_kind(node, "elementwise") and node.output.type.size >= self.wide
        return wide and leading(node.output.type.shape, self.rows) is not None

    def _closed(self) -> bool:
        """Whether no logits leave the part, they are reduced in it, and no term of a sum is read in it."""
        reduced = any(reduced_axes(node) for node in self.nodes)
        inside = {value for node in self.nodes for value in node.inputs}
        no_terms = not any(self.kinds.get(value) == TERM for value in inside)
        return reduced and no_terms and not any(self.is_wide(value) for value in self.results())

    def kind(self, node: Node) -> str | None:
        """What a node's result is, if it can be computed some rows at a time."""
        kinds = [self.kinds[value] for value in node.inputs if value in self.kinds]
        if len(node.outputs) != 1 or not kinds or TERM in kinds:
            return None
        shape = node.output.type.shape
        if is_view(node):
            return None if leading(shape, self.rows) is None else ROWS
        if reduced_axes(node) is not None:
            return self._kind_of_reduction(node)
        if broadcasts(node):
            lead = leading(shape, self.rows)
            known = [_padded(value, len(shape)) for value in node.inputs if value in self.kinds]
            return ROWS if lead is not None and all(one[:lead] == shape[:lead] for one in known) else None
        return self._kind_of_product(node) if node.op == "matmul" else None

    def _kind_of_reduction(self, node: Node) -> str | None:
        shape, axes = node.inputs[0].type.shape, reduced_axes(node) or ()
        lead = leading(shape, self.rows)
        assert lead is not None
        if all(axis >= lead for axis in axes):
            return ROWS
        whole = all(axis in axes or shape[axis] == 1 for axis in range(lead))
        return TERM if combination_of(node) is Combination.SUM and whole else None

    def _kind_of_product(self, node: Node) -> str | None:
        (a, b), turned = node.inputs, (node.attrs["trans_a"], node.attrs["trans_b"])
        if a.type.rank != 2:
            return None
        if turned == (True, False):
            return TERM if a.type.shape[0] == self.rows else None
        return ROWS if not turned[0] and a in self.kinds and b not in self.kinds else None


class _Writer:
    """Writes the graph with a part in chunks. In a chunk every value of rows has the shape [rows of the chunk, …]."""

    def __init__(self, part: _Part, rows: int) -> None:
        self.part = part
        self.inner = part.inner()
        self.builder = Builder(part.graph.name)
        self.builder.adopt_sources(part.graph)
        self.e = Emitter(self.builder)
        self.learns = any(node.phase != "forward" for node in self.inner)
        self.bounds = [(start, min(start + rows, part.rows)) for start in range(0, part.rows, rows)]
        self.views: dict[tuple[Value, tuple[int, ...]], Value] = {}

    def write(self) -> Graph:
        """The chunks stand where the part began; what they need and came later is moved before them."""
        graph, mapping = self.part.graph, dict[Value, Value]()
        first = graph.nodes.index(self.inner[0])
        needed = {value for node in self.inner for value in node.inputs}
        early: list[Node] = []
        for node in reversed(graph.nodes[first:]):
            if node not in self.part.nodes and any(value in needed for value in node.outputs):
                early.append(node)
                needed.update(node.inputs)
        for node in (*graph.nodes[:first], *reversed(early)):
            self.builder.keep(node)
        mapping = self._chunks()
        gone = self.part.nodes.union(early)
        for node in graph.nodes[first:]:
            if node not in gone:
                self.builder.keep(substitute(node, mapping))
        self.builder.outputs = {name: mapping.get(value, value) for name, value in graph.outputs.items()}
        self.builder.updates = {target: mapping.get(value, value) for target, value in graph.updates.items()}
        return self.builder.finish()

    def _chunks(self) -> dict[Value, Value]:
        """Emit all chunks; the part's results -> what stands for them."""
        results = self.part.results()
        made: dict[Value, list[Value]] = {value: [] for value in results}
        for bounds in self.bounds:
            local: dict[Value, Value] = {}
            for node in self.inner:
                self.builder.phase = "backward" if self.learns else node.phase
                self.builder.origin = node.origin
                new = self._chunk_of(node, local, bounds)
                if self.part.kinds[node.output] == TERM and made.get(node.output):
                    new = self.e.add(made[node.output].pop(), new)
                local[node.output] = new
                if node.output in made:
                    made[node.output].append(new)
        whole = {value: joined(self.e, pieces, 0) for value, pieces in made.items()}
        return {value: self.e.reshape(new, value.type.shape) for value, new in whole.items()}

    def _chunk_of(self, node: Node, local: dict[Value, Value], bounds: tuple[int, int]) -> Value:
        count, shape = bounds[1] - bounds[0], node.output.type.shape
        if node.op == "matmul":
            by_row = (True, self.part.kinds[node.output] == TERM)
            operands = [
                self._rows(value, value.type.shape, local, bounds) if of_rows else value
                for value, of_rows in zip(node.inputs, by_row, strict=True)
            ]
            return self.e.op("matmul", *operands, **node.attrs)
        if not is_view(node) and (axes := reduced_axes(node)) is not None:
            return self._chunk_of_reduction(node, axes, local, bounds)
        lead = leading(shape, self.part.rows)
        assert lead is not None
        if is_view(node):
            return self.e.reshape(local[node.inputs[0]], (count, *shape[lead:]))
        operands = [self._operand(value, shape, lead, local, bounds) for value in node.inputs]
        return self.e.op(node.op, *operands, **record_of(node).sized(node, (count, *shape[lead:])))

    def _chunk_of_reduction(
        self, node: Node, axes: Sequence[int], local: dict[Value, Value], bounds: tuple[int, int]
    ) -> Value:
        (x,) = node.inputs
        lead = leading(x.type.shape, self.part.rows)
        assert lead is not None
        rows = self._rows(x, (self.part.rows, *x.type.shape[lead:]), local, bounds)
        kept = [axis - lead + 1 for axis in axes if axis >= lead]
        return self.e.op(node.op, rows, **along(node, (*((0,) if self.part.kinds[node.output] == TERM else ()), *kept)))

    def _operand(
        self, value: Value, shape: tuple[int, ...], lead: int, local: dict[Value, Value], bounds: tuple[int, int]
    ) -> Value:
        """An operand that broadcasts to `shape`, whose first `lead` axes are the rows: the chunk's rows of it, or all
        of it where it has none."""
        if value in local:
            return local[value]
        padded = _padded(value, len(shape))
        if math.prod(padded[:lead]) == 1:
            return self.e.reshape(value, padded[lead:]) if value.type.rank > len(padded) - lead else value
        key = (value, (*shape[:lead], *padded[lead:]))
        if key not in self.views:
            self.views[key] = self.e.broadcast_to(value, key[1])
        return self._rows(self.views[key], (self.part.rows, *padded[lead:]), local, bounds)

    def _rows(self, value: Value, shape: tuple[int, ...], local: dict[Value, Value], bounds: tuple[int, int]) -> Value:
        """The chunk's rows of a value; of one from outside, seen as `shape`."""
        if value in local:
            return local[value]
        key = (value, shape)
        if key not in self.views:
            self.views[key] = self.e.reshape(value, shape)
        starts, stops = (bounds[0], *[0] * (len(shape) - 1)), (bounds[1], *shape[1:])
        return self.e.op("slice", self.views[key], starts=starts, stops=stops, steps=(1,) * len(shape))
