"""A kernel of each family of templates, small enough to read: to review what a change does to the emitted C.

python -m tests.compiler.golden.kernels         writes the files in golden/kernels anew
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pockengine import ops
from pockengine.codegen.c import CBackend
from pockengine.codegen.c.tunable import TunableContraction
from pockengine.codegen.c.winograd.plan import WinogradTile
from pockengine.ir import Builder, Graph, Node, RegionKind, Value, parse_type
from pockengine.ops import Emitter
from pockengine.plan.program import Lowered
from pockengine.targets import Target, get
from tests.compiler.codegen.harness import TILES
from tests.compiler.tune.workloads import bare, relu_convolution, relu_product

FOLDER = Path(__file__).with_name("kernels")
THREADS = 2
PI, X86 = get("raspberry-pi-4"), get("x86-64-v3")
CHANNELS = {"stride": (1, 1), "pad": (1, 1, 1, 1), "dilation": (1, 1), "groups": 8, "layout": "NHWC"}


@dataclass(frozen=True)
class Golden:
    """One node on one target; `lower` makes its kernels."""

    name: str
    target: Target
    node: Node
    lower: Callable[[Node, Target, int], Lowered] = CBackend().lower

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.name}.c"

    def text(self) -> str:
        """The C of all its kernels, in the order of their calls."""
        calls = self.lower(self.node, self.target, THREADS).calls
        head = f"/* {self.target.name}, {self.target.compute}, {THREADS} threads */\n"
        return head + "\n".join(call.kernel.source for call in calls)


def goldens() -> list[Golden]:
    """One of each family."""
    return [
        Golden("contraction_f32", PI, relu_product(6, 20, 12)),
        Golden("contraction_packed_bf16", TILES.computing("bf16"), relu_product(32, 32, 64)),
        Golden("depthwise", PI, bare("conv2d", "f32[1,6,6,8]", "f32[8,1,3,3]", **CHANNELS)),
        Golden("winograd", PI, relu_convolution(8, 8), _winograd),
        Golden("attention", X86, _attention()),
        Golden("elementwise", X86, _region(RegionKind.ELEMENTWISE, ("f32[4,24]", "f32[24]"), _gelu)),
        Golden("row", X86, _region(RegionKind.ROW, ("f32[4,24]", "f32[24]"), _normalised)),
        Golden("column", PI, _region(RegionKind.COLUMN, ("f32[40,24]",), _summed)),
    ]


def _winograd(node: Node, target: Target, threads: int) -> Lowered:
    """The best of the choices of minimal filtering, whether the model prefers it or not."""
    tunable = TunableContraction(node, target, threads)
    return tunable.lower(next(one.choice for one in tunable.candidates() if isinstance(one.choice, WinogradTile)))


def _attention() -> Node:
    types = [parse_type(text) for text in ("f32[1,2,70,8]", "f32[1,2,70,8]", "f32[1,2,70,8]")]
    attrs = {**ops.get("attention").samples[0].attrs}
    inputs = tuple(Value(f"x{i}", type) for i, type in enumerate(types))
    outputs = tuple(Value(f"y{i}", type) for i, type in enumerate(ops.get("attention").infer(types, attrs)))
    return Node("attention", inputs, outputs, attrs)


def _region(kind: RegionKind, shapes: tuple[str, ...], make: Callable[..., Value]) -> Node:
    builder = Builder("body")
    read = [builder.input(f"in{i}", parse_type(shape)) for i, shape in enumerate(shapes)]
    builder.outputs["y"] = make(Emitter(builder), *read)
    body: Graph = builder.finish()
    inputs = tuple(Value(f"x{i}", value.type) for i, value in enumerate(body.inputs))
    outputs = tuple(Value(f"y{i}", value.type) for i, value in enumerate(body.outputs.values()))
    return Node("region", inputs, outputs, {"kind": kind}, body)


def _gelu(e: Emitter, x: Value, bias: Value) -> Value:
    total = e.add(x, bias)
    return e.mul(e.mul(total, 0.5), e.add(e.op("erf", e.mul(total, 0.5**0.5)), 1.0))


def _normalised(e: Emitter, x: Value, weight: Value) -> Value:
    squares = e.op("reduce_sum", e.mul(x, x), axes=(1,), keepdims=True)
    return e.mul(e.mul(x, e.op("rsqrt", e.add(e.mul(squares, 1 / 24), 1e-5))), weight)


def _summed(e: Emitter, x: Value) -> Value:
    return e.op("reduce_sum", e.mul(x, x), axes=(0,), keepdims=False)


def write() -> None:
    """Write all files anew."""
    for old in FOLDER.glob("*.c"):
        old.unlink()
    for golden in goldens():
        golden.file.write_text(golden.text(), "utf-8")


if __name__ == "__main__":
    write()
