"""What tuning is worth: a build on the model's schedules, a tuned one, how long each takes, and their steps in turns.

    python -m benchmarks.tuning [--workload NAME ...] [--tune full|fast] [--rounds N] [--write docs/performance.md]

Nothing is cached but the C library of the target; the second tuned build finds what the first one learned.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pockengine as pock
from benchmarks.ablation import AGREEMENT, LOSSES
from benchmarks.document import table, write_section
from benchmarks.peers.case import Case
from benchmarks.peers.prepare import graph_of, recipe_of
from benchmarks.turns import Contender, medians_of

DEFAULT = ("mobilenetv2-b1-full",)
HEAD = ("step", "build", "tuned build", "tuned again", "contractions", "measured", "ms", "tuned, ms", "tuned / not")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    rows = [_row(Case.named(name), options.tune, options.threads, options.rounds) for name in options.workload]
    print(table(HEAD, rows))
    if options.write:
        write_section(options.write, "tuning", table(HEAD, rows))
    return 0


def _row(case: Case, mode: str, threads: int, rounds: int) -> list[str]:
    graph, recipe, feed = graph_of(case), recipe_of(case), case.feed()
    with tempfile.TemporaryDirectory(prefix="pock-tuning-") as folder:
        built: list[pock.Artifact] = []
        seconds: list[float] = []
        for tune in ("off", mode, mode):
            start = time.perf_counter()
            built.append(pock.compile(graph, recipe, threads=threads, tune=tune, cache=Path(folder)))
            seconds.append(time.perf_counter() - start)
    sessions = {"plain": built[0].load(), "tuned": built[1].load()}
    losses = {name: [session.step(feed) for _ in range(LOSSES)] for name, session in sessions.items()}
    if any(abs(a - b) > AGREEMENT * abs(a) for a, b in zip(*losses.values(), strict=True)):
        sys.exit(f"{case.workload.title}: the tuned step does not train alike: {losses}")
    contenders = [
        Contender(name, lambda session=session: session.step(feed))  # type: ignore[misc]
        for name, session in sessions.items()
    ]
    medians, facts = medians_of(contenders, rounds), built[1].summary["tuning"]
    return [
        case.workload.title,
        *(f"{taken:.0f} s" for taken in seconds),
        str(facts["workloads"]),
        str(facts["measured"]),
        f"{medians['plain']:.1f}",
        f"{medians['tuned']:.1f}",
        f"{medians['tuned'] / medians['plain']:.2f}x",
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", nargs="+", default=list(DEFAULT), metavar="NAME", help="(default: %(default)s)")
    parser.add_argument("--tune", choices=("fast", "full"), default="full", help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each build (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT", help="write the table into this Markdown file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
