"""One block of memory for the operands of a case, with garbage around each."""

from __future__ import annotations

import numpy as np

from pockengine.ir import Array, Value
from tests.compiler.codegen.harness import Case

ALIGNMENT = 64
GARBAGE = 0x5A


class Placed:
    """The operands of a case in `block`, u8[bytes], which is filled with garbage before, and `workspace` bytes behind
    them. `inplace` is a pair (input, output) that share their memory; `places` has the first byte of each value,
    `scratch` that of the workspace."""

    def __init__(self, case: Case, block: Array, inplace: tuple[int, int] | None, workspace: int = 0) -> None:
        self.case, self.block, self._workspace = case, block, workspace
        self.places: dict[Value, int] = {}
        block[:] = GARBAGE
        end = ALIGNMENT
        for o, value in enumerate(case.node.outputs):
            if inplace and inplace[1] == o:
                continue
            self.places[value], end = end, _next(end + value.type.nbytes)
        for value, array in zip(case.node.inputs, case.inputs, strict=True):
            raw = np.asarray(array, order="C").reshape(-1).view(np.uint8)
            self.places[value] = end
            block[end : end + raw.size] = raw
            end = _next(end + raw.size)
        if inplace:
            self.places[case.node.outputs[inplace[1]]] = self.places[case.node.inputs[inplace[0]]]
        self.scratch = end
        self._before = block.copy()

    def results(self) -> list[Array]:
        """The outputs, once they are computed; all other bytes have to be as they were."""
        written = np.zeros(self.block.size, bool)
        written[self.scratch : self.scratch + self._workspace] = True
        for value in self.case.node.outputs:
            written[self.places[value] : self.places[value] + value.type.nbytes] = True
        assert (self.block == self._before)[~written].all(), f"{self.case.label}: wrote outside its results"
        return [self._read(value) for value in self.case.node.outputs]

    def _read(self, value: Value) -> Array:
        raw = self.block[self.places[value] : self.places[value] + value.type.nbytes]
        return raw.view(value.type.dtype.numpy).reshape(value.type.shape).copy()


def _next(end: int) -> int:
    return (end // ALIGNMENT + 2) * ALIGNMENT
