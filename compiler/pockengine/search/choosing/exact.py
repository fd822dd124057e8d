"""The best choice of an additive problem, by integer linear programming, and a bound that proves how good it is."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from ..space import Choice
from .problem import Numbers, Problem, Solution, gain_of

_NEW_ROWS = 8
"""Rows that join the program at a time: those that its last answer breaks most. Few of them ever bind."""

_EPSILON = 1e-9
"""Relative room for the order of floating-point sums."""


def solve(problem: Problem, seconds: float = 60.0, tolerance: float = 0.0) -> Solution:
    """The choice of the largest gain within the limits, which trains something; or one that misses at most the part
    `tolerance` of it. After `seconds` the best that is known, with the bound that was proven until then."""
    if not problem.gains:
        return Solution(None, 0.0, 0.0)
    return _Program(problem, tolerance).solve(time.monotonic() + seconds)


@dataclass(frozen=True)
class _Answer:
    """Of one run of the solver: its variables, None where there are none; and the bound that it proved."""

    values: Numbers | None
    bound: float
    optimal: bool


@dataclass
class _Program:
    """Variables: one for each entry of `problem.flat` (it is chosen), then one for each unit u (gradients reach back to
    u: it or a unit before it is trained)."""

    problem: Problem
    tolerance: float
    rows: list[int] = field(default_factory=list)
    excluded: list[Numbers] = field(default_factory=list)

    def __post_init__(self) -> None:
        problem, flat = self.problem, self.problem.flat
        self.entries, self.units = len(flat.gains), len(problem.gains)
        self.gain_scale = max(float(np.abs(flat.gains).max(initial=0.0)), 1e-300)
        self.structure = self._structure()
        limited = np.isfinite(problem.limits)
        steps = problem.reach.copy()  # what it takes to reach one unit further back
        steps[:-1] -= problem.reach[1:]
        self.limits = problem.limits[limited]
        self.coefficients = np.concatenate([flat.takes, steps]).T[limited]  # [rows, variables]
        self.scale = np.maximum(np.abs(self.limits), np.abs(self.coefficients).max(axis=1, initial=0.0))
        self.scale[self.scale == 0] = 1.0

    def _structure(self) -> Numbers:
        """Rows that are at most 0: at most one option a unit; gradients reach where something is trained, and no
        further."""
        flat, entries, units = self.problem.flat, self.entries, self.units
        matrix = np.zeros((3 * units, entries + units))
        for unit in range(units):
            here, reached = np.flatnonzero(flat.units == unit), entries + unit
            matrix[unit, here], matrix[unit, reached] = 1, -1  # trained -> reached
            matrix[units + unit, reached] = 1  # reached -> trained, or reached further back
            matrix[units + unit, here] = -1
            if unit:
                matrix[units + unit, reached - 1] = -1
                matrix[2 * units + unit, [reached - 1, reached]] = 1, -1  # reached further back -> reached
        return matrix

    def solve(self, deadline: float) -> Solution:
        """Add rows until the answer breaks none."""
        problem, bound = self.problem, float("inf")
        while True:
            answer = self._run(max(deadline - time.monotonic(), 0.05))
            bound = min(bound, answer.bound)
            if answer.values is None:
                return Solution(None, 0.0, 0.0 if answer.optimal else bound)
            choice = problem.flat.choice(np.flatnonzero(answer.values[: self.entries] > 0.5), self.units)
            over = self._over(choice)
            broken = [int(row) for row in np.argsort(-over)[:_NEW_ROWS] if over[row] > 0]
            if not broken:
                gain = gain_of(problem.gains, choice)
                exact = answer.optimal and bound - gain <= 1e-6 * max(abs(gain), self.gain_scale)
                return Solution(choice, gain, gain if exact else max(bound, gain))
            new = [row for row in broken if row not in self.rows]
            self.rows += new
            if not new:  # within the solver's tolerance, not within the limits
                self.excluded.append((answer.values[: self.entries] > 0.5).astype(float))
            if time.monotonic() > deadline:
                return Solution(None, 0.0, bound)

    def _over(self, choice: Choice) -> Numbers:
        """By how much each limited row is above its limit, as a share of it."""
        usage = self.problem.usage(choice)[np.isfinite(self.problem.limits)]
        over: Numbers = (usage - self.limits) / self.scale
        return over

    def _run(self, seconds: float) -> _Answer:
        """Solve with the rows that have joined."""
        from scipy.optimize import Bounds, LinearConstraint, milp  # a third of the start-up time of `pock`
        from scipy.sparse import csr_array

        scale, rows = self.scale[self.rows], self.rows
        matrices = [self.structure, self.coefficients[rows] / scale[:, None]]
        limits = [np.zeros(len(self.structure)), self.limits[rows] / scale * (1 + _EPSILON)]
        for one in self.excluded:
            matrices.append(np.concatenate([2 * one - 1, np.zeros(self.units)])[None])
            limits.append(np.array([one.sum() - 1]))
        lower, upper = np.zeros(self.entries + self.units), np.ones(self.entries + self.units)
        lower[-1] = 1.0  # something is trained
        gains = np.concatenate([self.problem.flat.gains, np.zeros(self.units)]) / self.gain_scale
        with _silent():
            found = milp(
                -gains,
                integrality=np.ones(len(gains)),
                bounds=Bounds(lower, upper),
                constraints=LinearConstraint(csr_array(np.concatenate(matrices)), -np.inf, np.concatenate(limits)),
                options={"time_limit": seconds, "mip_rel_gap": self.tolerance},
            )
        known = found.mip_dual_bound
        bound = float("inf") if known is None or not np.isfinite(known) else -float(known) * self.gain_scale
        return _Answer(found.x, bound, found.status in (0, 2))


@contextmanager
def _silent() -> Iterator[None]:
    """Nothing on the process's standard output: HiGHS 1.12, which scipy 1.17 carries, writes a line of its own there
    for some programs whatever it is told, and that is where `--json` prints."""
    if sys.platform == "win32":
        yield
        return
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    flush(None)
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        flush(None)
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
