"""Tensors begin where the memory of the target wants them: in plans, in what is built, and in what checks them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import pockengine as pock
from pockengine.artifact import Artifact
from pockengine.codegen.native.tables import emit_model
from pockengine.codegen.reference.reading import parse as read
from pockengine.compile import Request, plan_programs
from pockengine.compile.build import describe
from pockengine.errors import ArtifactError, MemoryBudgetError
from pockengine.ir import Array
from pockengine.plan import PlanError
from pockengine.plan.check_program import check_program
from pockengine.recipe import Recipe
from pockengine.targets import Target, parse
from tests.compiler.training.networks import BATCH, CNN

RECIPE = Recipe("cross_entropy", {"name": "adamw", "clip": {"norm": 1.0}})
ALIGNMENTS = (16, 128, 256)


def device(alignment: int) -> Target:
    """This machine, as a user's target file that says how its memory is aligned."""
    text = f'name = "mine"\ndescription = "A board"\ncpu = "native"\nram_alignment = {alignment}\n'
    return parse(text, "mine.toml")


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("least", [False, True])
def test_plans_keep_to_the_alignment(alignment: int, least: bool) -> None:
    """With as much memory as the quickest step takes, and with the least. The arena's first value alone would show
    nothing: some offset is an odd multiple."""
    model, target = CNN.build(BATCH), device(alignment)
    planned = plan_programs(Request(model, RECIPE, target, 2))
    if least:
        with pytest.raises(MemoryBudgetError) as refused:
            plan_programs(Request(model, RECIPE, target, 2, memory=1))
        arena = planned.arena_bytes
        planned = plan_programs(Request(model, RECIPE, target, 2, memory=refused.value.least_bytes))
        assert planned.arena_bytes < arena
    offsets = set[int]()
    for program in planned.programs.values():
        places = {place.offset for place in program.locations.values()}
        scratch = {step.workspace for step in program.steps if step.workspace is not None}
        offsets |= places | scratch
        check_program(program, planned.spaces.sizes, alignment)
        with pytest.raises(PlanError, match=f"is not a multiple of {16 * alignment}"):
            check_program(program, planned.spaces.sizes, 16 * alignment)
    assert not any(offset % alignment for offset in offsets)
    assert any(offset % (2 * alignment) for offset in offsets)
    assert f".alignment = {alignment}," in emit_model(describe(planned))


def batches() -> list[Mapping[str, Array]]:
    return [CNN.batch(step) for step in range(3)]


def losses(artifact: Artifact) -> list[float]:
    with artifact.load() as session:
        return [session.step(batch) for batch in batches()]


def test_what_is_built_for_such_a_target_computes_the_same(tmp_path: Path) -> None:
    usual = losses(pock.compile(CNN.build(BATCH), RECIPE, "host", threads=2))
    for alignment in ALIGNMENTS:
        artifact = pock.compile(CNN.build(BATCH), RECIPE, device(alignment), threads=2)
        artifact.save(tmp_path / "model.pock")
        opened = Artifact.open(tmp_path / "model.pock")
        assert opened.manifest.target["ram_alignment"] == alignment
        assert losses(opened) == usual


def test_the_reference_backend_checks_the_alignment() -> None:
    artifact = pock.compile(CNN.build(BATCH), RECIPE, device(16), threads=1, backend="reference")
    assert losses(artifact) == pytest.approx(
        losses(pock.compile(CNN.build(BATCH), RECIPE, "host", threads=1)), rel=1e-4
    )
    script = artifact.read("program.json")
    assert read(script).model.alignment == 16
    with pytest.raises(ArtifactError, match="is not within"):
        read(script.replace(b'"alignment":16,', b""))
    with pytest.raises(ArtifactError, match="its alignment is 0 bytes"):
        read(script.replace(b'"alignment":16,', b'"alignment":0,'))
