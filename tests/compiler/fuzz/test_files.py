"""Damaged model files and recipes: one clear error or a right result; never a crash, a hang or a traceback."""

from __future__ import annotations

from collections import Counter

from . import files, mutations, recipes
from .isolated import FAILED, REFUSED, RIGHT, run_all
from .seeds import MODELS

WHOLE, FILES, RECIPES = len(MODELS), 220, 150
"""`python -m tests.compiler.fuzz` runs thousands."""


def test_damaged_models() -> None:
    jobs = [files.File(title, content, n) for n, (title, content) in enumerate(mutations.mutants(1, FILES))]
    outcomes = list(run_all(files.examine, jobs))
    assert [outcome.kind for outcome in outcomes[:WHOLE]] == [RIGHT] * WHOLE
    failed = [(job.title, job.seed, o.detail) for job, o in zip(jobs, outcomes, strict=True) if o.kind == FAILED]
    assert not failed
    counts = Counter(outcome.kind for outcome in outcomes)
    assert counts[REFUSED] > 0.3 * FILES
    assert counts[RIGHT] > 0.1 * FILES


def test_damaged_recipes() -> None:
    jobs = list(recipes.mutants(1, RECIPES))
    outcomes = list(run_all(recipes.examine, jobs))
    assert [outcome.kind for outcome in outcomes[: len(recipes.VALID)]] == [RIGHT] * len(recipes.VALID)
    failed = [(job.content, o.detail) for job, o in zip(jobs, outcomes, strict=True) if o.kind == FAILED]
    assert not failed
    assert Counter(outcome.kind for outcome in outcomes)[RIGHT] > len(recipes.VALID)
