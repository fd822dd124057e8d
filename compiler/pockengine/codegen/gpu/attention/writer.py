"""What all kernels of attention have in common: operands, scores, masks."""

from __future__ import annotations

from ....ir import DType, Node
from ....plan.program import Kernel
from ...common.attention import masks_of
from ...common.c_dialect import literal
from ...common.indexing import broadcast_strides
from ...common.mathlib import functions
from ..source import Code, kernel, operands_of
from .sizes import Sizes


class AttentionWriter:
    """Of one kernel of an attention or its gradient."""

    def __init__(self, node: Node, sizes: Sizes) -> None:
        self.node, self.sizes = node, sizes
        self.code, self.operands = Code(), operands_of(node)
        attrs = node.attrs
        self.scale, self.causal = float(attrs["scale"]), bool(attrs["causal"])
        self.softcap = float(attrs.get("softcap", 0.0))

    def finish(self, stem: str, shared: int = 0) -> Kernel:
        """The kernel whose text was written, which takes so many bytes of POOL."""
        shown = ", ".join(f"{name}={value}" for name, value in vars(self.sizes).items())
        called = functions({"exp", "log", "tanh"})
        return kernel(stem, f"{self.node.op}: {shown}", self.code.text(), called, shared)

    def score(self, head: str, query: str, key: str) -> None:
        """From the product `s` of a query and a key to `bounded`, the score before masks, and `seen`, after those that
        are operands."""
        code, t = self.code, self.sizes
        code.line(f"const float scaled = s * {literal(self.scale, DType.F32)};")
        cap = literal(self.softcap, DType.F32)
        code.line(f"const float bounded = {f'{cap} * pock_tanh(scaled / {cap})' if self.softcap else 'scaled'};")
        code.line("float seen = bounded;")
        scores = (t.batch, t.heads, t.m, t.n)
        for mask in masks_of(self.node):
            name = self.operands[self.node.inputs.index(mask)][0]
            steps = broadcast_strides(mask.type.shape, scores)
            digits = (f"({head}) / {t.heads}", f"({head}) % {t.heads}", query, key)
            terms = [f"({digit}) * {step}" for digit, step in zip(digits, steps, strict=True) if step]
            hidden = f"{query} < {t.m} && {key} < {t.n}"
            with code.block(f"if ({hidden})"):
                place = f"{name}[{' + '.join(terms) or '0'}]"
                if mask.type.dtype is DType.BOOL:
                    code.line(f"seen = {place} ? seen : -__builtin_inff();")
                else:
                    code.line(f"seen += {place};")

    def softcap_slope(self) -> None:
        """Take `ds` through the bound of the scores."""
        if self.softcap:
            cap = literal(self.softcap, DType.F32)
            self.code.line(f"ds *= 1.0f - bounded / {cap} * (bounded / {cap});")

    def is_later(self, query: str, key: str) -> str:
        """Expression of whether a causal attention hides a key from a query."""
        return f"{key} > {query} + {self.sizes.n - self.sizes.m}"

    def key_head(self) -> None:
        """Declare which key head serves the head."""
        t = self.sizes
        self.code.line(f"const ptrdiff_t key_head = head / {t.heads} * {t.key_heads} + head % {t.heads} / {t.group};")

    def member_head(self) -> str:
        """Expression of the head that is the `member`-th of those that the key head `head` serves."""
        t = self.sizes
        return f"head / {t.key_heads} * {t.heads} + head % {t.key_heads} * {t.group} + member"

    def last_key(self, rows: int) -> str:
        """Expression of the number of keys that so many queries from `first` on may see."""
        t = self.sizes
        if not self.causal:
            return str(t.n)
        seen = f"first + {rows + t.n - t.m}"
        return f"({seen} < {t.n} ? {seen} : {t.n})"

    def first_query(self, side: int) -> str:
        """Expression of the first query that may see the keys from `first` on, rounded down to a multiple of `side`."""
        t = self.sizes
        if not self.causal:
            return "0"
        seeing = f"first - {t.n - t.m}"
        return f"({seeing} > 0 ? ({seeing}) / {side} * {side} : 0)"
