"""What is said of the first value of a compiled step that is wrong. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

RIGHT = (
    "all values and gradients of the imported model agree when they are computed one by one, every kernel computes "
    "what its node says, and no pass changes what the step computes"
)
"""Half a sentence for where nobody is found; one of the two below says what is left."""
DEFINITION = (
    "the reference backend trains as the compiled program does: what differs is how the optimizer's update is defined"
)
PLAN = (
    "the reference backend trains otherwise than the compiled program: what differs is where the memory plan puts a "
    "value, or how the program runs its kernels"
)


class Wrong(StrEnum):
    """What made a value wrong.

    KERNEL  its kernel, which makes something else of its inputs than the reference
    PASS    a pass, after which the step computes something else"""

    KERNEL = "kernel"
    PASS = "pass"


@dataclass(frozen=True)
class Culprit:
    """The first value that is wrong beyond rounding, and who made it so.

    value     its name in the graph that is lowered, or in the graph after the wrong pass
    node      the user's node or parameter that it comes from; empty where there is none
    phase     forward, backward or update
    operator  what the node computes; of a region, its operators
    passes    those that made its node or changed it, in order; a wrong pass is the last
    kernels   symbols of the kernels that compute it
    file      with their source, where a folder was given
    error     how far a kernel is off, relative to the value's size
    wrong     who it was"""

    value: str
    node: str
    phase: str
    operator: str
    passes: tuple[str, ...]
    kernels: tuple[str, ...]
    file: str | None
    error: float | None
    wrong: Wrong

    def sentence(self) -> str:
        """Half a sentence, for a person."""
        of = f" of the model's node '{self.node}'" if self.node else ""
        by = f", made by {' → '.join(self.passes)}" if self.passes else ""
        where = f" (source: {self.file})" if self.file else ""
        symbols = ", ".join(f"'{symbol}'" for symbol in self.kernels)
        if self.wrong is Wrong.KERNEL:
            return (
                f"the first wrong value is '%{self.value}', {self.operator} in the {self.phase} part{of}{by}: its "
                f"kernel {symbols}{where} is off by {self.error:.1e} from what the reference makes of the same inputs"
            )
        return (
            f"the pass '{self.passes[-1]}' changes what the step computes: the first value that differs is "
            f"'%{self.value}', {self.operator} in the {self.phase} part{of}{by}, in kernel {symbols}{where}"
        )
