"""A backend's memory of what it worked out has an end, and forgetting changes nothing but time."""

from __future__ import annotations

from pockengine.codegen.c.backend import CBackend
from pockengine.codegen.common.memo import MOST, Memo
from pockengine.compile import Request, plan_programs
from pockengine.ir import Builder, DType, Graph, TensorType
from pockengine.ops import Emitter
from pockengine.plan.lowering import Lowering
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.training.networks import CNN


def test_what_was_not_asked_for_the_longest_is_given_up() -> None:
    made, memo = list[int](), Memo(2)

    def ask(number: int) -> None:
        def square() -> int:
            made.append(number)
            return number**2

        assert memo.get(("square", number), square) == number**2

    for number in (1, 2, 1, 3, 1, 2):
        ask(number)
    assert made == [1, 2, 3, 2] and len(memo) == 2


def test_a_result_that_asks_for_more_than_fits_is_still_told() -> None:
    memo = Memo(1)

    def total(number: int) -> int:
        return number + memo.get((number - 1,), lambda: total(number - 1)) if number else 0

    assert memo.get((4,), lambda: total(4)) == 10 and len(memo) == 1


def product(rows: int) -> Graph:
    builder = Builder("product")
    x, w = (builder.input(name, TensorType(DType.F32, shape)) for name, shape in (("x", (rows, 4)), ("w", (4, 4))))
    builder.outputs = {"y": Emitter(builder).matmul(x, w)}
    return builder.finish()


def test_a_backend_that_lowers_for_ever_does_not_grow() -> None:
    memo = Memo(20)
    backend, target = CBackend(memo=memo), get("raspberry-pi-4")
    for rows in range(1, 60):
        lowering = Lowering(backend, target, 2)
        assert lowering(product(rows).nodes[-1]).calls
    assert len(memo) == 20


def test_forgetting_changes_no_program() -> None:
    def programs(memo: Memo) -> object:
        backend = CBackend(memo=memo)
        planned = plan_programs(Request(CNN.build(4), Recipe(), get("raspberry-pi-4"), 2, backend=backend))
        return [
            (place.offset, [call.kernel for call in step.lowered.calls])
            for program in planned.programs.values()
            for step in program.steps
            for place in [program.locations[step.node.outputs[0]]]
        ]

    short, usual = Memo(3), Memo()
    assert programs(short) == programs(usual)
    assert len(short) == 3 < len(usual) < MOST
