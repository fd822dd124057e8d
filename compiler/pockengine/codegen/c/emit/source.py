"""Kernels as C text: the signature of tasks, loops, declarations of operands, and names by content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ....ir import TensorType
from ....plan.program import Kernel
from ...common.c_dialect import c_type
from ...common.lines import Lines

SYMBOL = "POCK_KERNEL"
"""Stands for the kernel's name until its source is complete and can be hashed."""

SIGNATURE = f"void {SYMBOL}(void *const *arg, int task, int tasks)"

VECTORIZE = "#pragma clang loop vectorize(assume_safety)"
"""Operands that alias are read and written at the same index only (`Lowered.inplace`), so iterations are
independent."""

VECTORIZE_SHORT = f"{VECTORIZE} unroll(disable)"
"""For loops over a panel's columns: inlined, they have few iterations, and clang would unroll them into scalars before
it comes to vectorise them."""

_PRELUDE = """\
#include <stddef.h>
#include <stdint.h>
#pragma clang diagnostic ignored "-Wpass-failed"
#pragma clang diagnostic ignored "-Wunused-parameter"
"""


class Code(Lines):
    """Lines of C: loops, and what a task does."""

    @contextmanager
    def loop(self, index: str, count: object, start: object = 0, vectorize: bool = False) -> Iterator[None]:
        """`for (ptrdiff_t index = start; index < count; ++index)`."""
        if vectorize:
            self.line(VECTORIZE)
        with self.block(f"for (ptrdiff_t {index} = {start}; {index} < {count}; ++{index})"):
            yield

    def share(self, units: int) -> None:
        """Declare `first` and `last`, this task's range of `units` equal pieces of work."""
        self.line(f"const ptrdiff_t first = (ptrdiff_t){units} * task / tasks;")
        self.line(f"const ptrdiff_t last = (ptrdiff_t){units} * (task + 1) / tasks;")


def declare(code: Code, names: Iterable[tuple[str, TensorType, bool]]) -> None:
    """Declare one typed pointer per operand, in order: (name, type, written)."""
    for index, (name, type, written) in enumerate(names):
        const = "" if written else "const "
        code.line(f"{const}{c_type(type.dtype)} *{name} = arg[{index}]; /* {type} */")


def kernel(stem: str, title: str, body: str, helpers: Iterable[str] = ()) -> Kernel:
    """Make a kernel of C text that defines `SIGNATURE`. `title` is one line for the reader; it must not hold the user's
    names, so that equal work is one kernel."""
    parts = [f"/* {title} */", _PRELUDE, *(helper.strip() + "\n" for helper in helpers), body]
    text = "\n".join(part.rstrip("\n") + "\n" for part in parts)
    symbol = f"k_{stem}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return Kernel(symbol, text.replace(SYMBOL, symbol))
