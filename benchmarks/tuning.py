"""What tuning is worth: a build on the model's schedules, a tuned one, how long each takes, and their steps in turns.

    python -m benchmarks.tuning [--workload NAME ...] [--tune full|fast] [--rounds N] [--write docs/performance.md]

Nothing is cached but the C library of the target; the second tuned build finds what the first one learned.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pockengine as pock
from benchmarks.document import table, write_section
from benchmarks.peers.case import Case
from benchmarks.peers.prepare import graph_of, recipe_of
from benchmarks.variants import parser_of, step_medians

DEFAULT = ("mobilenetv2-b1-full",)
HEAD = ("step", "build", "tuned build", "tuned again", "contractions", "measured", "ms", "tuned, ms", "tuned / not")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of(__doc__, DEFAULT, rounds=10)
    parser.add_argument("--tune", choices=("fast", "full"), default="full", help="(default: %(default)s)")
    options = parser.parse_args(arguments)
    rows = [_row(Case.named(name), options.tune, options.threads, options.rounds) for name in options.workload]
    print(table(HEAD, rows))
    if options.write:
        write_section(options.write, "tuning", table(HEAD, rows))
    return 0


def _row(case: Case, mode: str, threads: int, rounds: int) -> list[str]:
    graph, recipe = graph_of(case), recipe_of(case)
    with tempfile.TemporaryDirectory(prefix="pock-tuning-") as folder:
        built: list[pock.Artifact] = []
        seconds: list[float] = []
        for tune in ("off", mode, mode):
            start = time.perf_counter()
            built.append(pock.compile(graph, recipe, threads=threads, tune=tune, cache=Path(folder)))
            seconds.append(time.perf_counter() - start)
    medians = step_medians(case, {"plain": built[0], "tuned": built[1]}, rounds)
    facts = built[1].summary["tuning"]
    return [
        case.workload.title,
        *(f"{taken:.0f} s" for taken in seconds),
        str(facts["workloads"]),
        str(facts["measured"]),
        f"{medians['plain']:.1f}",
        f"{medians['tuned']:.1f}",
        f"{medians['tuned'] / medians['plain']:.2f}x",
    ]


if __name__ == "__main__":
    sys.exit(main())
