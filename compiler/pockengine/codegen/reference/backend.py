"""The reference backend as the compiler sees it: every op that has a record is a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ... import ops
from ...ir import DType, Graph, Node
from ...passes import PASSES
from ...plan.lowering import RUNTIME_BYTES
from ...plan.pipeline import Pipeline
from ...plan.program import Call, Kernel, Lowered, Packing, Whole
from ...progress import Progress
from ...targets import HOST_MEMORY, Memory, Target
from ..backend import Built, Limits
from ..common.region import bytes_of, flops_of, inplace_pairs
from ..model import Model
from ..untuned import Untuned
from .writing import PROGRAM, render

_REGIONS = (PASSES["channels_last"], PASSES["separate"], PASSES["reorder"])
REFERENCE = Pipeline(
    preparing=(),
    algebra=(PASSES["stream_embeddings"], PASSES["expand_composites"], PASSES["tidy"]),
    shaping=_REGIONS,
    sparing=(PASSES["chunk_rows_finely"], PASSES["recompute_elementwise"], *_REGIONS),
)
"""No more than planning needs: primitives, each by itself, in an order."""


class ReferenceBackend(Untuned):
    """Kernels are the numpy functions of `ops`; see `codegen.backend.Backend`."""

    name = "reference"
    pipeline: Pipeline = REFERENCE

    def limits(self, target: Target) -> Limits:
        """Products are numpy's, in the type of their operands."""
        return Limits(("f32",), tunes=False, trained=(DType.BF16,))

    def memory(self, target: Target) -> Memory:
        """The processor's own."""
        return target.memory(HOST_MEMORY)

    def unsupported(self, node: Node) -> str | None:
        """Nothing that has a record is."""
        if ops.is_view(node):
            return f"the planner makes {node.op} an alias"
        return None if node.body is not None or ops.get(node.op) else ""

    def claims(self, node: Node) -> bool:
        """Composites are what their expansions compute."""
        return False

    def lower(self, node: Node, target: Target, threads: int) -> Lowered:
        """One call. It reads all operands before it writes a result, so any two may share memory."""
        pairs = [(i, o) for i in range(len(node.inputs)) for o in range(len(node.outputs))]
        inside = node.body.nodes if node.body is not None else (node,)
        kernel = Kernel("_".join(["numpy", *dict.fromkeys(inner.op for inner in inside)]), "")
        operands = (*node.inputs, *node.outputs)
        call = Call(kernel, operands, (), Whole(), flops_of(node), bytes_of(node))
        return Lowered((call,), inplace=inplace_pairs(node, pairs))

    def cost(self, lowered: Lowered, target: Target, threads: int) -> float:
        """A cycle for each operation and each byte: only compared with each other."""
        return float(sum(call.flops + call.bytes for call in lowered.calls))

    def rounds(self, node: Node, target: Target) -> DType | None:
        """Nothing is rounded."""
        return None

    def packing(self, node: Node, target: Target, threads: int) -> tuple[int, Packing] | None:
        """There is one lowering."""
        return None

    def scratch(self, node: Node, target: Target, threads: int) -> Sequence[tuple[int, float]]:
        """There is one lowering."""
        return ()

    def runtime_bytes(self, model: Graph) -> int:
        """A constant: the interpreter that runs it is not counted."""
        return RUNTIME_BYTES

    def prepare(self, target: Target, cache: Path | None = None) -> None:
        """Nothing is compiled."""

    def build(self, model: Model, target: Target, cache: Path | None, progress: Progress) -> Built:
        """The planned programs as data."""
        steps = [step for program in model.programs.values() for step in program.steps]
        kernels = {call.kernel.symbol for step in steps for call in step.lowered.calls}
        points = dict.fromkeys(("executable", "library", "header"), PROGRAM)
        return Built({PROGRAM: render(model)}, points, {}, len(kernels), 0)
