"""Gradients of random graphs at singular points, some stopped: PyTorch's, in the interpreter and in machine code."""

from __future__ import annotations

import warnings
from pathlib import Path

from .gradients import Tally, drawn

GRAPHS = 40
"""`python -m tests.compiler.fuzz --gradients 2000` draws thousands."""


def test_random_gradients_are_pytorchs(tmp_path: Path) -> None:
    tally = Tally()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of deviations of one element
        tally.add(drawn(GRAPHS, number=1), tmp_path)
    assert not tally.differences, tally.differences[0]
    assert tally.agreed == GRAPHS
    assert tally.unsure < 0.02 * tally.numbers
