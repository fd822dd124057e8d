"""Models of contractions: a format's instruction picks one, all rank in comparable cycles, and a backend asks once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pockengine.codegen.c import CBackend
from pockengine.codegen.c.contraction import plan
from pockengine.codegen.c.contraction.formats import Instruction, f32, fastest
from pockengine.codegen.c.contraction.models import model_for, model_of, schedules_of
from pockengine.codegen.c.contraction.models.f32 import F32Model
from pockengine.codegen.c.contraction.models.narrow import TileModel, VectorModel
from pockengine.codegen.c.contraction.plan import products_of
from pockengine.codegen.common.identity import identity
from pockengine.targets import Target, get
from tests.compiler.codegen.harness import TILES
from tests.compiler.tune.workloads import product, relu_product

MODELS = [
    (get("raspberry-pi-4"), Instruction.FMA, F32Model),
    (get("snapdragon-8-gen-3").computing("f16"), Instruction.FMLAL, VectorModel),
    (get("snapdragon-8-gen-3").computing("bf16"), Instruction.BFDOT, VectorModel),
    (TILES.without_tiles().computing("bf16"), Instruction.DPBF16, VectorModel),
    (TILES.computing("bf16"), Instruction.AMX, TileModel),
]


@pytest.mark.parametrize(("target", "instruction", "kind"), MODELS, ids=[one[1].value for one in MODELS])
def test_an_instruction_has_its_model(target: Target, instruction: Instruction, kind: type) -> None:
    format = fastest(target)
    model = model_of(format, target, 2)
    assert format.instruction is instruction and type(model) is kind
    (contraction,) = products_of(product(256, 512, 384))
    ranked = model.ranked(contraction)
    assert [cycles for cycles, _ in ranked] == sorted(cycles for cycles, _ in ranked)
    for cycles, schedule in ranked:
        assert type(model_for(schedule, target, 2)) is kind
        assert 0 < model.share_of_peak(contraction, schedule, None) <= 1
        (first, base), *strips = model.in_strips(contraction, schedule, None)
        assert (first, base) == (cycles, schedule) and all(one.strips >= 1 for _, one in strips)
        assert all(one != schedule for _, one in model.neighbours(contraction, schedule, None))


def test_every_instruction_is_tried() -> None:
    assert {instruction for _, instruction, _ in MODELS} == set(Instruction)
    assert model_of(f32(TILES), TILES, 1) != model_of(f32(TILES), TILES, 2)


def test_a_backend_ranks_a_contraction_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions with one contraction, strips, and the backend with other picks take what is known; another does not."""
    asked = []

    def counting(*arguments):
        asked.append(arguments)
        return schedules_of(*arguments)

    monkeypatch.setattr(plan, "schedules_of", counting)
    target, backend = get("raspberry-pi-4"), CBackend()
    lowered = backend.lower(product(), target, 2)
    assert backend.lower(product(), target, 2).calls[0].kernel is lowered.calls[0].kernel
    backend.lower(relu_product(), target, 2)
    backend.scratch(product(), target, 2)
    tunable = backend.tunable(relu_product(), target, 2)
    assert tunable is not None
    tuned = backend.tuned({identity(relu_product()): tunable.candidates()[1].choice})
    assert tuned.lower(product(), target, 2).calls[0].kernel is lowered.calls[0].kernel
    assert tuned.lower(relu_product(), target, 2) != backend.lower(relu_product(), target, 2)
    assert len(asked) == 1
    backend.lower(product(), replace(target, l2_bytes=target.l2_bytes * 2), 2)
    CBackend().lower(product(), target, 2)
    assert len(asked) == 3
