"""Whether a step fits is asked of the memory in which it runs: the one where the backend keeps tensors."""

from __future__ import annotations

import pytest

from pockengine.check import Estimate, check
from pockengine.cli.checking import show_check
from pockengine.codegen.reference.backend import ReferenceBackend
from pockengine.compile import Request, plan_programs, predicted_peak_bytes
from pockengine.errors import MemoryBudgetError, PockError
from pockengine.plan.budget import RESERVE
from pockengine.recipe import Recipe
from pockengine.targets import Target, get, parse
from tests.compiler.training.networks import CNN

BATCH = 32
RECIPE = Recipe("cross_entropy", "adamw")


def board(gpu_bytes: int) -> Target:
    """This machine, were it one with an accelerator."""
    gpu = f"[[accelerators]]\nname = 'gpu'\nnbytes = {gpu_bytes}\nalignment = 256\n"
    return parse(f"name = 'board'\ndescription = 'With an accelerator'\ncpu = 'native'\n{gpu}", "board.toml")


@pytest.fixture
def on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """No backend keeps tensors in an accelerator's memory yet: the reference backend as one that does."""
    monkeypatch.setattr(ReferenceBackend, "memory", lambda backend, target: target.memory("gpu"))


def estimated(target: Target, memory: int | None = None, backend: str = "reference") -> Estimate | str:
    return check(CNN.build(BATCH), RECIPE, target, memory, backend).recipes["recipe"]


def test_the_verdict_is_about_the_memory_of_the_step(on_the_gpu: None, capsys: pytest.CaptureFixture[str]) -> None:
    large = estimated(board(1 << 30))
    assert isinstance(large, Estimate)
    peak = large.summary["predicted_peak_bytes"]
    for gpu_bytes, fits in ((-(-4 * peak // 3), True), (4 * peak // 3 - 4, False)):
        report = check(CNN.build(BATCH), RECIPE, board(gpu_bytes), None, "reference")
        assert report.estimate is not None
        told = report.estimate.to_mapping()
        assert (told["memory"], told["memory_bytes"], told["fits"]) == ("gpu", gpu_bytes, fits)
        assert told["ram_bytes"] == get("host").ram_bytes and told["targets"] == {}
        show_check(report)
        shown = capsys.readouterr().out
        assert f"MB of 'gpu': {'fits' if fits else 'does not fit'}" in shown


def test_a_backend_that_runs_in_ram_does_not_ask_accelerators() -> None:
    for backend in ("c", "reference"):
        told = estimated(board(4096), backend=backend)
        assert isinstance(told, Estimate) and told.fit.fits
        assert told.to_mapping()["memory"] == "ram" and "raspberry-pi-4" in told.to_mapping()["targets"]


def test_a_target_without_the_memory_is_a_sentence(on_the_gpu: None) -> None:
    with pytest.raises(PockError, match="the target 'host' does not have the memory 'gpu' .known: ram"):
        estimated(get("host"))


def test_a_budget_is_one_of_the_memory_of_the_step(on_the_gpu: None) -> None:
    free = plan_programs(Request(CNN.build(BATCH), RECIPE, board(1 << 30), backend=ReferenceBackend()))
    peak = predicted_peak_bytes(free) + RESERVE
    assert not any(place.offset % 256 for place in free.programs["train"].locations.values())
    fitted = plan_programs(
        Request(CNN.build(BATCH), RECIPE, board(peak - 4096), memory=1 << 40, backend=ReferenceBackend())
    )
    assert predicted_peak_bytes(fitted) + RESERVE <= peak - 4096 and fitted.recomputed.nodes
    for memory, sentence in (
        (1 << 40, r"more than the 1\.6 MiB that the target 'board' has in its memory 'gpu': "),
        (1600 << 10, r"more than the 1\.6 MiB allowed in the memory 'gpu': "),
    ):
        request = Request(CNN.build(BATCH), RECIPE, board(1601 << 10), memory=memory, backend=ReferenceBackend())
        with pytest.raises(MemoryBudgetError, match=sentence):
            plan_programs(request)
    told = estimated(board(1601 << 10), 1 << 40)
    assert isinstance(told, str) and "has in its memory 'gpu'" in told


def test_no_more_is_allowed_than_the_device_has() -> None:
    small = parse(SMALL, "small.toml")
    with pytest.raises(
        MemoryBudgetError, match=r"more than the 800 KiB that the target 'small' has in its memory 'ram'"
    ):
        plan_programs(Request(CNN.build(BATCH), RECIPE, small, memory=1 << 40))


SMALL = """
name = "small"
description = "A board"
triple = "aarch64-linux-musl"
cpu = "cortex_a53"
features = []
os = "linux"
cores = 1
ram_bytes = 819200
vector_bytes = 16
registers = 32
mr = 8
nr = 12
l1_bytes = 32768
l2_bytes = 262144
"""
