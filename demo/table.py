"""The one table of the demo, from the reports of the runs."""

from dataclasses import dataclass
from typing import TypeVar

from rich.table import Table

from pock_client import Run
from pock_client.schema import Report

T = TypeVar("T")
KIB, MIB = 1 << 10, 1 << 20
TITLES = (
    "\n\nsteps",
    "step\nmedian\nms",
    "\np90\nms",
    "planned\narena\nMiB",
    "peak\nmemory\nMiB",
    "loss\nfirst\n→ last",
    "accuracy\nbefore →\nafter, %",
)


@dataclass(frozen=True)
class Outcome:
    """A finished run: the device's name, whether it is emulated, and the run as the service shows it."""

    device: str
    emulated: bool
    run: Run

    @property
    def train(self) -> Report:
        """What the training binary measured."""
        return _there(_there(self.run.report).train)

    @property
    def losses(self) -> list[float]:
        """The loss of every training step."""
        return _there(self.train.loss)

    def accuracy(self, when: str) -> float:
        """Accuracy on the held-out, shifted digits: `when` is "before" or "after"."""
        reports = _there(self.run.report)
        return _there(_there(reports.eval_before if when == "before" else reports.eval_after).accuracy)


def _there(value: T | None) -> T:
    """What the report of a run with an evaluation set has."""
    assert value is not None, "the run's report is not whole"
    return value


def outcome_table(outcomes: list[Outcome]) -> Table:
    """Device, step median and p90, planned arena, measured peak memory, losses, accuracies; fits 80 columns."""
    emulated = any(outcome.emulated for outcome in outcomes)
    table = Table(
        title="Fine-tuned on the device",
        caption="* emulated: its times and memory are the emulator's" if emulated else None,
        box=None,
        padding=(0, 1, 0, 0),
    )
    table.add_column("\n\ndevice", no_wrap=True)
    for title in TITLES:
        table.add_column(title, justify="right", no_wrap=True)
    for outcome in outcomes:
        report = outcome.train
        step = _there(report.step_ms)
        table.add_row(
            outcome.device + "*" * outcome.emulated,
            str(report.steps),
            f"{_there(step.median):.2f}",
            f"{_there(step.p90):.2f}",
            f"{_there(report.arena_bytes) / MIB:.2f}",
            f"{_there(report.peak_rss_bytes) / MIB:.2f}",
            f"{outcome.losses[0]:.2f} → {outcome.losses[-1]:.2f}",
            f"{100 * outcome.accuracy('before'):.1f} → {100 * outcome.accuracy('after'):.1f}",
        )
    return table


def size(nbytes: int) -> str:
    """Bytes for people."""
    return f"{nbytes / MIB:.2f} MiB" if nbytes >= MIB else f"{nbytes / KIB:.1f} KiB"


def largest_difference(one: list[float], other: list[float]) -> float:
    """The largest relative difference over the steps that both have."""
    return max(abs(a - b) / max(abs(a), 1e-12) for a, b in zip(one, other, strict=False))
