"""Random models and recipes through the whole pipeline: what comes out is what the unoptimised graphs compute."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings

from pockengine.ir import DType, TensorType

from .cases import Case, cases
from .graphs import drawn
from .pipeline import TARGETS, Tally, check_places, check_text, in_machine_code, in_memory, prepare
from .sketch import Sketch

IN_MEMORY, IN_MACHINE_CODE = 150, 40
"""`python -m tests.compiler.fuzz` runs thousands."""


@settings(
    max_examples=IN_MEMORY, derandomize=True, database=None, phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(cases())
def test_programs_in_memory(case: Case) -> None:
    """Plans for another processor, run byte by byte: no live value is overwritten, and texts say all of it."""
    one = prepare(case, TARGETS[case.seed % 2])
    if one.planned is None:
        return
    check_text(one.planned)
    check_places(one.planned)
    tally = Tally()
    assert not tally.add(one, in_memory(one)), tally.differences[0]


def test_programs_as_machine_code(tmp_path: Path) -> None:
    tally = Tally()
    ready = [prepare(case) for case in drawn(IN_MACHINE_CODE, number=1)]
    for one, found in in_machine_code(ready, tmp_path):
        tally.add(one, found)
    assert not tally.differences, tally.differences[0]
    assert tally.agreed > 0.8 * IN_MACHINE_CODE
    assert tally.unsure < 0.05 * tally.numbers


def test_frozen_weights_lie_as_panels(tmp_path: Path) -> None:
    """Machine code reads a frozen weight packed: so it is given, and read back in its original order."""
    s = Sketch(seed=0, batch=2)
    e, x = s.e, s.input("x", TensorType(DType.F32, (2, 32, 9, 9)))
    attrs = {"stride": (1, 1), "pad": (1, 1, 1, 1), "dilation": (1, 1), "layout": "NCHW"}
    h = e.op("conv2d", x, s.param("frozen", 64, 16, 3, 3), groups=2, **attrs)
    h = e.reshape(e.mean(e.op("tanh", h), (2, 3)), (2, 64))
    h = e.matmul(h, e.transpose(s.param("frozen", 32, 64), (1, 0)))
    model = s.finish({"logits": e.add(h, s.param("bias", 32))})
    recipe = {"loss": {"name": "mse"}, "optimizer": {"name": "sgd", "lr": 0.1}, "update": [{"params": "*.bias"}]}
    one, tally = prepare(Case(model, recipe, seed=0)), Tally()
    assert one.planned is not None
    assert one.planned.packed
    [(_, found)] = in_machine_code([one], tmp_path)
    assert not tally.add(one, found), tally.differences[0]
    assert {"after: layer.0.frozen", "after: layer.1.frozen"} <= set(found)
