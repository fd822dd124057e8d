"""The one table of the demo, from the reports of the runs."""

from dataclasses import dataclass
from typing import Any

from rich.table import Table

KIB, MIB = 1 << 10, 1 << 20
TITLES = (
    "steps",
    "step median",
    "p90",
    "planned arena",
    "peak memory",
    "loss first → last",
    "accuracy before → after",
)


@dataclass(frozen=True)
class Outcome:
    """A finished run: the device's name, whether it is emulated, and the run as the service shows it."""

    device: str
    emulated: bool
    run: dict[str, Any]

    @property
    def losses(self) -> list[float]:
        """The loss of every training step."""
        return [float(loss) for loss in self.run["report"]["train"]["loss"]]

    def accuracy(self, when: str) -> float:
        """Accuracy on the held-out, shifted digits: `when` is "before" or "after"."""
        return float(self.run["report"][f"eval_{when}"]["accuracy"])


def outcome_table(outcomes: list[Outcome]) -> Table:
    """Device, step median and p90, planned arena, measured peak memory, losses, accuracies."""
    table = Table(title="Fine-tuned on the device")
    table.add_column("device")
    for title in (
        "steps",
        "step median",
        "p90",
        "planned arena",
        "peak memory",
        "loss first → last",
        "accuracy before → after",
    ):
        table.add_column(title, justify="right")
    for outcome in outcomes:
        report = outcome.run["report"]["train"]
        step = report["step_ms"]
        table.add_row(
            f"{outcome.device} (emulated: times say nothing)" if outcome.emulated else outcome.device,
            str(report["steps"]),
            f"{step['median']:.2f} ms",
            f"{step['p90']:.2f} ms",
            size(report["arena_bytes"]),
            size(report["peak_rss_bytes"]),
            f"{outcome.losses[0]:.3f} → {outcome.losses[-1]:.3f}",
            f"{outcome.accuracy('before'):.1%} → {outcome.accuracy('after'):.1%}",
        )
    return table


def size(nbytes: int) -> str:
    """Bytes for people."""
    return f"{nbytes / MIB:.2f} MiB" if nbytes >= MIB else f"{nbytes / KIB:.1f} KiB"


def largest_difference(one: list[float], other: list[float]) -> float:
    """The largest relative difference over the steps that both have."""
    return max(abs(a - b) / max(abs(a), 1e-12) for a, b in zip(one, other, strict=False))
