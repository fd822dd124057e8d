"""Runs node tests on a backend: a case's outputs against those that ONNX expects, by ONNX's own comparison."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from pockengine.errors import PockError
from pockengine.frontends.onnx_file import from_proto
from pockengine.frontends.onnx_import import import_model
from pockengine.interp import evaluate
from pockengine.ir import Array, Graph

from .cases import Case

Verdict = str | None
"""None where a case passes, else the reason why not in one line."""
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
        return said(error)


def compare(case: Case, found: Iterable[Array]) -> Verdict:
    """ONNX's rule: the same types and shapes, and numbers within the case's tolerances."""
    for got, want in zip(found, case.outputs, strict=True):
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            return f"gives {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
        try:
            np.testing.assert_allclose(got, want, rtol=case.rtol, atol=case.atol)
        except AssertionError as error:
            lines = [line.strip() for line in str(error).splitlines() if "difference" in line or "location" in line]
            return "wrong numbers: " + "; ".join(lines[:2])
    return None


def said(error: Exception) -> str:
    """The first line of an error; what is not one of ours is shown with its type, as the bug it is."""
    first = (str(error).splitlines() or [""])[0]
    return first if isinstance(error, PockError) else f"{type(error).__name__}: {first}"
