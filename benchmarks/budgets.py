"""What it costs to train within less memory: the step at several budgets, estimated and measured, in turns.

    python -m benchmarks.budgets [--workload NAME ...] [--rounds N] [--write docs/memory.md]

Every budget must give the losses of the step that keeps everything.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pockengine as pock
from benchmarks.document import mib, table, write_section
from benchmarks.peers.case import Case
from benchmarks.peers.our_peer import executable_report
from benchmarks.peers.prepare import graph_of, recipe_of
from benchmarks.variants import parser_of, step_medians
from pockengine.errors import MemoryBudgetError
from pockengine.plan.budget import RESERVE

DEFAULT = ("mobilenetv2-b1-full", "mobilenetv2-b8-full", "distilbert-b8-last2")
SHARES = (0.75, 0.5, 0.25)
EVERYTHING = "everything kept"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser_of(__doc__, DEFAULT, rounds=6).parse_args(arguments)
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
    budgets = _budgets(case, threads)
    medians = step_medians(case, budgets, rounds)
    rows = []
    for what, artifact in budgets.items():
        summary = artifact.summary
        measured = executable_report(artifact, threads)["peak_rss_bytes"]
        rows.append(
            [
                case.workload.title,
                what,
                mib(summary["arena_bytes"]),
                mib(summary["predicted_peak_bytes"]),
                mib(measured),
                str(summary["recomputed_nodes"]),
                f"{1 + summary['recomputed_share']:.2f}x",
                f"{medians[what] / medians[EVERYTHING]:.2f}x",
            ]
        )
    return rows


def _budgets(case: Case, threads: int) -> dict[str, pock.Artifact]:
    """By what is left of the arena: everything, shares as far as they are possible, and the least."""
    graph, recipe = graph_of(case), recipe_of(case)
    plain = pock.compile(graph, recipe, threads=threads)
    arena = plain.summary["arena_bytes"]
    beside = plain.summary["predicted_peak_bytes"] - arena + RESERVE
    artifacts = {EVERYTHING: plain}
    limits = {f"at most {share:.0%}": beside + int(share * arena) for share in SHARES}
    try:
        pock.compile(graph, recipe, threads=threads, memory=1)
    except MemoryBudgetError as error:
        limits = {what: limit for what, limit in limits.items() if limit > error.least_bytes} | {
            "the least": error.least_bytes
        }
    for what, limit in limits.items():
        artifacts[what] = pock.compile(graph, recipe, threads=threads, memory=limit)
        print(f"{case.workload.title}, {what}: compiled", file=sys.stderr)
    return artifacts


if __name__ == "__main__":
    sys.exit(main())
