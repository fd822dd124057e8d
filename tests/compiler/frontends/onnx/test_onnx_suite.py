"""ONNX's own node tests on both backends: what a static compiler has to pass passes, and nothing is ever wrong."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from onnx import defs

from benchmarks.node_tests.backends import Failure, Verdict, run_interpreter
from benchmarks.node_tests.cases import NOT_PASSED, Case, all_cases, eligible_cases
from benchmarks.node_tests.machine_code import run_machine_code
from pockengine.frontends.operators import known
from tests.sweeps import some

HALF = "half precision"
"""Cases of 16-bit floats run where the op records allow it; how they round is not judged."""


def test_eligible_cases_on_the_interpreter() -> None:
    _check(run_interpreter(eligible_cases()))
    assert len(eligible_cases()) > 1400, "the rule of eligibility leaves out more than it should"


def test_eligible_cases_as_machine_code() -> None:
    _check(run_machine_code(some(eligible_cases(), 8)))


def _check(verdicts: Mapping[str, Verdict]) -> None:
    failed = {name: failure.reason for name, failure in verdicts.items() if failure and name not in NOT_PASSED}
    assert not failed
    assert len(NOT_PASSED) < 0.05 * len(verdicts)


def test_other_cases_are_right_or_refused() -> None:
    others = {case.name: case.exclusion for case in all_cases() if case.exclusion is not None}
    found = _unexpected(run_interpreter([case for case in all_cases() if case.name in others]))
    judged = {name: failure for name, failure in found.items() if others[name] != HALF or failure.kind == "broken"}
    assert not judged
    assert not [failure for failure in found.values() if failure.reason.startswith("gives")], "another type or shape"


def test_settings_that_come_at_run_time_are_right_or_refused() -> None:
    given = [case.without_settings() for case in eligible_cases() if case.settings]
    assert len(given) > 200
    assert not _unexpected(run_interpreter(given))


def _unexpected(verdicts: Mapping[str, Verdict]) -> dict[str, Failure]:
    return {name: failure for name, failure in verdicts.items() if failure and failure.kind != "refused"}


@pytest.mark.parametrize(
    ("name", "exclusion"),
    [
        ("test_add_uint64", None),
        ("test_reshape_negative_dim", None),
        ("test_quantizelinear_uint16", None),
        ("test_nonzero_example", "dynamic shape"),
        ("test_quantizelinear_e4m3fn", "quantised type"),
        ("test_loop11", "control flow"),
        ("test_sequence_insert_at_back", "sequence"),
        ("test_string_concat", "string"),
        ("test_max_float16", "half precision"),
        ("test_training_dropout", "random numbers"),
    ],
)
def test_rule(name: str, exclusion: str | None) -> None:
    (case,) = (case for case in all_cases() if case.name == name)
    assert case.exclusion == exclusion


def test_shapes_become_constants_and_data_does_not() -> None:
    (case,) = (case for case in all_cases() if case.name == "test_slice")
    assert case.settings == {"starts", "ends", "axes", "steps"}
    assert list(case.feeds) == ["x"]


def test_most_operators_have_a_case() -> None:
    """What ONNX does not test here is tested in test_operators.py or by a family."""
    with_case = {node.op_type for case in eligible_cases() for node in case.model.graph.node}
    ours = {name.rpartition(".")[2] for name in known() if "." in name or defs.has(name)}
    assert len(ours & with_case) > 0.9 * len(ours), sorted(ours - with_case)


def test_an_excluded_case_keeps_its_settings() -> None:
    case: Case = next(case for case in all_cases() if case.exclusion == "half precision" and case.settings)
    assert {tensor.name for tensor in case.static.graph.initializer} >= case.settings
