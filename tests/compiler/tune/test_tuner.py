"""Tuning on this machine with tiny workloads: what is measured, what counts, what is taken from the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from pockengine.codegen.c import CBackend
from pockengine.codegen.c.tunable import TunableContraction
from pockengine.codegen.c.winograd.plan import WinogradTile
from pockengine.codegen.common.identity import identity
from pockengine.codegen.native.measure.program import ProgramMeasurement
from pockengine.codegen.tunable import Choice, RunLimits, Trial
from pockengine.errors import PockError
from pockengine.ir import Node
from pockengine.ops.quantised import BlockFormat, dequantize
from pockengine.plan.program import Lowered
from pockengine.targets import Target, get
from pockengine.tune import LocalStore, Tuning, check_mode, tune
from pockengine.tune.reference import differs, draw, expected
from pockengine.tune.workload import Workload, distance, workloads_of
from tests.compiler.tune.workloads import (
    DEPTHWISE,
    STRIDED,
    bare,
    product,
    product_in_blocks,
    relu_convolution,
    relu_product,
)

HOST = get("host")
THREADS = 2


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """Compiled kernels, shared by the tests of this file."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return LocalStore(tmp_path)


def test_every_candidate_computes_what_the_reference_says(cache, tmp_path):
    nodes = [
        product(37, 50, 1100),  # deep enough to split k
        product(64, 64, 64),
        relu_product(33, 47, 65),
        bare("conv2d", "f32[1,14,14,32]", "f32[32,1,3,3]", **DEPTHWISE),
        bare("conv2d_dx", "f32[1,7,7,8]", "f32[8,16,3,3]", **STRIDED),
        relu_convolution(),
    ]
    trials = []
    for node in nodes:
        tunable = TunableContraction(node, HOST, THREADS)
        found = tunable.candidates(wide=True)
        assert len(found) == len({candidate.choice for candidate in found}) > 3
        assert tunable.lower().calls == tunable.lower(found[0].choice).calls
        filtered = [one for one in found if isinstance(one.choice, WinogradTile)]
        kept = found[:: max(1, len(found) // 7)] + filtered
        trials.append(Trial(node, tuple(tunable.lower(one.choice) for one in kept)))
    measurement = CBackend().measurer(HOST, THREADS, cache).build(trials, tmp_path)
    for index, trial in enumerate(trials):
        inputs = draw(trial.node)
        runs = measurement.run(index, inputs, RunLimits(2, 1e3, 1 << 12))
        wanted = expected(trial.node, inputs)
        for one in runs:
            assert one.failure is None and not one.overrun and one.output is not None
            assert len(one.ms) == 2 and min(one.ms) > 0
            assert differs(trial.node, one.output.read_bytes(), wanted, trial.output_offsets) is None


class Changed(CBackend):
    """The C backend, whose candidates' kernels pass through `change`."""

    def __init__(self, change: Callable[[TunableContraction, Choice | None, Lowered], Lowered]) -> None:
        super().__init__()
        self.change = change

    def tunable(self, node: Node, target: Target, threads: int) -> TunableContraction | None:
        found, change = super().tunable(node, target, threads), self.change

        class Tunable(TunableContraction):
            def lower(self, choice: Choice | None = None) -> Lowered:
                return change(self, choice, super().lower(choice))

        return found and Tunable(found.node, found.target, found.threads)


def broken(wrong: str) -> Changed:
    """The kernels of the second candidate are those of the model's with a mistake in their C text."""

    def change(tunable: TunableContraction, choice: Choice | None, lowered: Lowered) -> Lowered:
        if choice != tunable.candidates()[1].choice:
            return lowered
        calls = []
        for call in lowered.calls:
            kernel, tag = call.kernel, f"{call.kernel.symbol}_broken"
            source = kernel.source.replace(kernel.symbol, tag)
            head = f"void {tag}(void *const *arg, int task, int tasks)\n{{\n"
            assert head in source
            calls.append(replace(call, kernel=replace(kernel, symbol=tag, source=source.replace(head, head + wrong))))
        return replace(lowered, calls=tuple(calls))

    return Changed(change)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("    if (task == 0) return;\n", "wrong"),
        ("    __builtin_trap();\n", "ended with status"),
        (
            "    for (int i = 0; i < 1 << 19; ++i) ((char *)arg[2])[64 * 128 * 4 + i] = 1;\n",
            "beyond its memory|ended with status",
        ),
    ],
    ids=["incomplete", "crash", "overrun"],
)
def test_a_broken_candidate_never_wins(wrong, said, store, cache):
    tuning = tune(workloads_of([product()], HOST, THREADS, broken(wrong)), "fast", store, cache)
    (one,) = tuning.workloads
    (reason,) = one.rejected
    assert one.source == "measured"
    assert any(text in reason for text in said.split("|")), reason
    assert one.choice != TunableContraction(product(), HOST, THREADS).candidates()[1].choice
    assert tuning.statistics()["tuning"]["rejected"] == [reason]


def test_a_second_build_takes_what_the_first_measured(store, cache):
    nodes = [product(), relu_product(), product(), bare("conv2d", "f32[1,14,14,32]", "f32[32,1,3,3]", **DEPTHWISE)]
    first = tune(workloads_of(nodes, HOST, THREADS, CBackend()), "fast", store, cache)
    assert sorted(one.source for one in first.workloads) == ["measured", "measured", "verified"]
    assert len(first.workloads) == 3  # equal ones are one
    again = tune(workloads_of(nodes, HOST, THREADS, CBackend()), "fast", store, cache)
    assert [one.source for one in again.workloads] == ["cache"] * 3
    assert again.picks == first.picks
    assert again.summary()["schedules"][0]["ms"] == first.summary()["schedules"][0]["ms"]
    counted = again.statistics()["tuning"]
    assert (counted["hits"], counted["misses"]) == (3, 0)
    full = tune(
        workloads_of(nodes[:1], HOST, THREADS, CBackend()), "full", store, cache
    )  # wants more than fast mode has measured
    assert full.workloads[0].source == "measured" and full.workloads[0].tried > first.workloads[0].tried
    assert tune(workloads_of(nodes[:1], HOST, THREADS, CBackend()), "fast", store, cache).picks == full.picks


@pytest.mark.parametrize("pixels", [7, 56])
def test_minimal_filtering_is_weighed_against_the_definition(pixels, store, cache):
    """Whatever the model prefers, the other kind comes second; the backend follows either choice."""
    node = relu_convolution(pixels, 64)
    first, second, *_ = (one.choice for one in TunableContraction(node, HOST, THREADS).candidates())
    assert isinstance(first, WinogradTile) != isinstance(second, WinogradTile)
    assert (TunableContraction(node, HOST, THREADS).winograd() is not None) == isinstance(first, WinogradTile)
    (one,) = tune(workloads_of([node], HOST, THREADS, CBackend()), "fast", store, cache).workloads
    assert one.source == "measured" and one.tried > 1 and one.rejected == ()
    assert tune(workloads_of([node], HOST, THREADS, CBackend()), "fast", store, cache).workloads[0].source == "cache"
    for choice in (first, second):
        lowered = CBackend({identity(node): choice}).lower(node, HOST, THREADS)
        filtered = any("winograd" in call.kernel.symbol for call in lowered.calls)
        assert filtered == isinstance(choice, WinogradTile)
        packing = CBackend({identity(node): choice}).packing(node, HOST, THREADS)
        assert packing is None or not filtered


@pytest.mark.parametrize("format", BlockFormat)
def test_weights_in_blocks_are_drawn_so_that_sums_are_exact(format, store, cache):
    node = product_in_blocks(format)
    _, packed, scales = draw(node)
    numbers = dequantize(packed, scales, format, 32, (50, 96))
    assert len(np.unique(numbers)) > 3
    np.testing.assert_array_equal(numbers * 2, np.rint(numbers * 2))
    (one,) = tune(workloads_of([node], HOST, THREADS, CBackend()), "fast", store, cache).workloads
    assert one.source == "measured" and one.tried > 1 and one.rejected == ()


def test_rounding_may_turn_a_comparison_but_not_more():
    node = relu_convolution()
    inputs = draw(node)
    wanted = expected(node, inputs)
    mask, y = (np.asarray(same[0]) for same in wanted)

    def said(mask, y):
        return differs(node, mask.astype(np.uint8).tobytes() + y.astype(np.float32).tobytes(), wanted, [0, mask.size])

    assert len(wanted[0]) == 3 and said(mask, y) is None
    close = np.abs(y) < 1e-9
    turned = np.where(close & (np.asarray(wanted[0][2]) != mask), ~mask.astype(bool), mask)
    assert np.any(turned != mask) and said(turned, y) is None
    assert "numbers of output 0 are wrong" in str(said(~mask.astype(bool), y))
    assert "numbers of output 1 are wrong" in str(said(mask, y + 1e-3 * np.abs(y).max()))


def test_the_backend_follows_the_picks():
    node = product()
    other = TunableContraction(node, HOST, THREADS).candidates()[1].choice
    picked = CBackend({identity(node): other}).lower(node, HOST, THREADS)
    assert picked == TunableContraction(node, HOST, THREADS).lower(other)
    assert picked != CBackend().lower(node, HOST, THREADS)
    assert CBackend({identity(product(8)): other}).lower(node, HOST, THREADS) == CBackend().lower(node, HOST, THREADS)


def test_another_machine_is_not_measured_but_its_stored_results_are_used(store, cache):
    pi = get("raspberry-pi-4")
    tuning = tune(workloads_of([product()], pi, 4, CBackend()), "fast", store, cache)
    assert tuning.picks == {} and "another machine" in tuning.why_not
    ((workload),) = workloads_of([product()], pi, 4, CBackend())
    best = TunableContraction(product(), pi, 4).candidates()[2].choice
    result = tune(workloads_of([product()], HOST, THREADS, CBackend()), "fast", store, cache)
    stored = store.get(result.workloads[0].workload.inputs)
    store.put(workload.inputs, replace(stored, choice=best.to_plain()))  # as a fleet device would report
    assert tune(workloads_of([product()], pi, 4, CBackend()), "fast", store, cache).picks == {workload.identity: best}


def test_a_stored_choice_that_is_no_candidate_is_a_miss(store, cache):
    tuning = tune(workloads_of([product()], HOST, THREADS, CBackend()), "fast", store, cache)
    workload = tuning.workloads[0].workload
    stored = store.get(workload.inputs)
    plain = TunableContraction(product(), HOST, THREADS).candidates()[0].choice.to_plain()
    store.put(workload.inputs, replace(stored, choice=[{**plain[0], "rows": 999}]))
    assert (
        tune(workloads_of([product()], HOST, THREADS, CBackend()), "fast", store, cache).workloads[0].source
        == "measured"
    )


def test_close_shapes_are_tried_first(store, cache):
    far = TunableContraction(product(), HOST, THREADS).candidates()[-1].choice
    (known,) = workloads_of([product()], HOST, THREADS, CBackend())
    result = tune(workloads_of([product()], HOST, THREADS, CBackend()), "fast", store, cache)
    store.put(known.inputs, replace(store.get(known.inputs), choice=far.to_plain()))
    tried: list[Choice | None] = []

    def spy(tunable: TunableContraction, choice: Choice | None, lowered: Lowered) -> Lowered:
        if choice is not None:
            tried.append(choice)
        return lowered

    tune(workloads_of([product(72)], HOST, THREADS, Changed(spy)), "fast", store, cache)
    assert result.workloads[0].choice != far
    first, wanted = cast(Any, tried[1]).parts[0], cast(Any, far).parts[0]
    assert (first.split, first.vectors) == (wanted.split, wanted.vectors)


def test_without_time_the_model_chooses(store, cache):
    tuning = tune(workloads_of([product()], HOST, THREADS, CBackend()), "fast", store, cache, seconds=-1)
    assert tuning.picks == {} and "time limit" in tuning.why_not
    assert tuning.summary() == {"tuned": "fast", "schedules_by_model": 1, "schedules": []}


@pytest.mark.parametrize(
    ("model", "other", "wins"),
    [
        ((2.0, 2.0, 2.0), (1.0, 1.1, 1.0), True),
        ((2.0, 2.0, 2.0), (1.99, 1.99, 1.99), False),  # within the noise
        ((1.0, 9.0, 9.0), (1.5, 1.5, 1.5), False),  # the model's is quicker when nothing disturbs it
    ],
)
def test_who_wins(monkeypatch, store, cache, model, other, wins):
    real = ProgramMeasurement.run

    def timed(*arguments):
        runs = real(*arguments)
        return [replace(one, ms=other if number == 1 else model) for number, one in enumerate(runs)]

    monkeypatch.setattr(ProgramMeasurement, "run", timed)
    (one,) = tune(workloads_of([product()], HOST, THREADS, CBackend()), "fast", store, cache).workloads
    space = TunableContraction(product(), HOST, THREADS).candidates()
    assert one.choice == space[1 if wins else 0].choice
    assert one.unsteady == (max(model) > 2 * min(model))
    assert one.ms is not None and one.model_ms is not None
    assert (one.ms < one.model_ms) == wins


def test_a_key_says_all_that_matters():
    (base,) = workloads_of([product()], HOST, THREADS, CBackend())
    others = [
        Workload((product(65),), HOST, THREADS, CBackend()),
        Workload((relu_product(),), HOST, THREADS, CBackend()),
        Workload((product(),), HOST, 1, CBackend()),
        Workload((product(),), replace(HOST, l2_bytes=HOST.l2_bytes * 2), THREADS, CBackend()),
        Workload((product(),), replace(HOST, cpu="baseline"), THREADS, CBackend()),
    ]
    assert all(other.inputs != base.inputs for other in others)
    assert workloads_of([product()], HOST, THREADS, CBackend())[0].inputs == base.inputs
    assert distance((8, 8), (8, 16)) == 1 and distance((8,), (8, 1)) == np.inf


def test_modes():
    assert Tuning().summary() == {"tuned": "off"} and Tuning().statistics() == {}
    with pytest.raises(PockError, match="did you mean 'fast'"):
        check_mode("fasst")
