"""Learning rates that are chosen when a compiled step runs.

A recipe's `step` schedule is a factor that falls after each `EVERY` steps; training sets the count of steps done, a
state, to where the factor is as wanted. So one compilation serves every rate, and every decay."""

from __future__ import annotations

import math

import numpy as np

from pockengine import Session

STEPS_DOWN = math.sqrt(0.1)
"""Each rate against the one before: half a decade."""
EVERY = 1 << 20
"""No training here has as many steps."""
SCHEDULE = {"name": "step", "every": EVERY, "gamma": STEPS_DOWN}

DECAYS = (0.6, 0.85)
"""After these shares of the steps the rate goes one step down."""

GRID = (0, 1, 2, 3)
"""The rates that are tried: the recipe's own, and each half a decade lower than the one before."""


def set_rate(session: Session, number: int) -> None:
    """From the next step on, the recipe's rate times `STEPS_DOWN` to the power of `number`."""
    session.set_tensor("step", np.array(number * EVERY, np.int64))


def number_at(first: int, done: float) -> int:
    """The number of the rate when this share of the steps is done."""
    return first + sum(done >= decay for decay in DECAYS)
