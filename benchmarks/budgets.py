"""What it costs to train within less memory: the step at several budgets, estimated and measured, in turns.

    python -m benchmarks.budgets [--workload NAME ...] [--rounds N] [--write docs/memory.md]

Every budget must give the losses of the step that keeps everything.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pockengine as pock
from benchmarks.ablation import AGREEMENT, LOSSES
from benchmarks.document import mib, table, write_section
from benchmarks.peers.case import Case
from benchmarks.peers.our_peer import executable_report
from benchmarks.peers.prepare import graph_of, recipe_of
from benchmarks.turns import Contender, medians_of
from pockengine.compile.fitting import RESERVE
from pockengine.errors import MemoryBudgetError

DEFAULT = ("mobilenetv2-b1-full", "mobilenetv2-b8-full", "distilbert-b8-last2")
SHARES = (0.75, 0.5, 0.25)


@dataclass(frozen=True)
class Budget:
    """One way to train a workload. `what` is the part of the arena that is left."""

    what: str
    artifact: pock.Artifact


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    rows = []
    for name in options.workload:
        rows += _rows(Case.named(name), options.threads, options.rounds)
        print(table(HEAD, rows), flush=True)
    if options.write:
        write_section(options.write, "budgets", table(HEAD, rows))
    return 0


HEAD = (
    "step", "arena", "arena, MiB", "process, MiB", "measured, MiB", "nodes computed twice", "estimated time", "measured"
)  # fmt: skip


def _rows(case: Case, threads: int, rounds: int) -> list[list[str]]:
    budgets, feed = _budgets(case, threads), case.feed()
    sessions = [budget.artifact.load() for budget in budgets]
    losses = [[session.step(feed) for _ in range(LOSSES)] for session in sessions]
    for budget, found in zip(budgets, losses, strict=True):
        if any(abs(a - b) > AGREEMENT * abs(a) for a, b in zip(losses[0], found, strict=True)):
            sys.exit(f"{case.workload.title}: at {budget.what} the losses are {found} instead of {losses[0]}")
    contenders = [
        Contender(budget.what, lambda session=session: session.step(feed))  # type: ignore[misc]
        for budget, session in zip(budgets, sessions, strict=True)
    ]
    medians = medians_of(contenders, rounds)
    rows = []
    for budget in budgets:
        summary = budget.artifact.summary
        measured = executable_report(budget.artifact, threads)["peak_rss_bytes"]
        rows.append(
            [
                case.workload.title,
                budget.what,
                mib(summary["arena_bytes"]),
                mib(summary["predicted_peak_bytes"]),
                mib(measured),
                str(summary["recomputed_nodes"]),
                f"{1 + summary['recomputed_share']:.2f}x",
                f"{medians[budget.what] / medians[budgets[0].what]:.2f}x",
            ]
        )
    return rows


def _budgets(case: Case, threads: int) -> list[Budget]:
    """Everything kept, shares of that arena as far as they are possible, and the least."""
    graph, recipe = graph_of(case), recipe_of(case)
    plain = pock.compile(graph, recipe, threads=threads)
    arena = plain.summary["arena_bytes"]
    beside = plain.summary["predicted_peak_bytes"] - arena + RESERVE
    budgets = [Budget("everything kept", plain)]
    limits = {f"at most {share:.0%}": beside + int(share * arena) for share in SHARES}
    try:
        pock.compile(graph, recipe, threads=threads, memory=1)
    except MemoryBudgetError as error:
        limits = {what: limit for what, limit in limits.items() if limit > error.least_bytes} | {
            "the least": error.least_bytes
        }
    for what, limit in limits.items():
        budgets.append(Budget(what, pock.compile(graph, recipe, threads=threads, memory=limit)))
        print(f"{case.workload.title}, {what}: compiled", file=sys.stderr)
    return budgets


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", nargs="+", default=list(DEFAULT), metavar="NAME", help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each budget (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT", help="write the table into this Markdown file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
