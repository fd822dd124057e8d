"""Kernels of `bernoulli`: every element from its own counter, so that any split over tasks gives the same bits."""

from __future__ import annotations

from ....ir import Node
from ....ops.random import threshold
from ....plan.program import Lowered
from ...common.draws import PHILOX
from ..emit.calls import call
from ..emit.source import SIGNATURE, Code, declare, kernel

OPS = frozenset(("bernoulli",))
CHUNK = 4096


def lower(node: Node) -> Lowered:
    """The kernel of one bernoulli node."""
    size, attrs = node.output.type.size, node.attrs
    if size == 0:
        return Lowered(())
    code = Code()
    with code.block(SIGNATURE):
        declare(code, [("generator", node.inputs[0].type, False), ("out", node.output.type, True)])
        code.line("const uint64_t state = (uint64_t)generator[0];")
        code.line(f"const uint32_t low = (uint32_t)state, key = (uint32_t)(state >> 32) ^ {int(attrs['site'])}u;")
        code.line(f"const uint64_t bound = UINT64_C({threshold(float(attrs['p']))});")
        code.share(-(-size // CHUNK))
        with code.loop("unit", "last", "first"):
            code.line(f"const ptrdiff_t begin = unit * {CHUNK};")
            code.line(f"const ptrdiff_t end = begin + {CHUNK} < {size} ? begin + {CHUNK} : {size};")
            with code.loop("j", "end", "begin", vectorize=True):
                code.line("out[j] = philox((uint32_t)j, low, key) < bound;")
    built = kernel("bernoulli", f"{node.output.type} true with probability {attrs['p']}", code.text(), [PHILOX])
    return Lowered((call(node, built),))
