"""Runs node tests on a backend: a case's outputs against those that ONNX expects, by ONNX's own comparison."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pockengine.errors import PockError
from pockengine.frontends.onnx.file import from_proto
from pockengine.frontends.onnx.importer import import_model
from pockengine.interp import evaluate
from pockengine.ir import Array, Graph

from .cases import Case


@dataclass(frozen=True)
class Failure:
    """Why a case does not pass. `kind` is `refused` (an error of ours, before anything runs), `wrong` (it runs and
    gives something else) or `broken` (anything else: a bug)."""

    kind: str
    reason: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """An error as a failure: its first line, with its type where it is not one of ours."""
        first = (str(error).splitlines() or [""])[0]
        if isinstance(error, PockError):
            return cls("refused", first)
        return cls("broken", f"{type(error).__name__}: {first}")


Verdict = Failure | None
"""None where a case passes."""
Run = Callable[[Sequence[Case]], dict[str, Verdict]]


def imported(case: Case) -> Graph:
    """The case as a graph whose settings are constants."""
    return import_model(from_proto(case.static), case.name, parameters=())


def run_interpreter(cases: Sequence[Case]) -> dict[str, Verdict]:
    """Every case by the numpy references of the op records."""
    return {case.name: _interpret(case) for case in cases}


def _interpret(case: Case) -> Verdict:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compare(case, list(evaluate(imported(case), case.feeds).values()))
    except Exception as error:  # whatever goes wrong, the other cases go on; the table shows it
        return Failure.of(error)


def compare(case: Case, found: Iterable[Array]) -> Verdict:
    """ONNX's rule: the same types and shapes, and numbers within the case's tolerances."""
    for got, want in zip(found, case.outputs, strict=True):
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            return Failure("wrong", f"gives {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}")
        try:
            np.testing.assert_allclose(got, want, rtol=case.rtol, atol=case.atol)
        except AssertionError as error:
            lines = [line.strip() for line in str(error).splitlines() if "difference" in line or "location" in line]
            return Failure("wrong", "other numbers: " + "; ".join(lines[:2]))
    return None
