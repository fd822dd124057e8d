"""Our own step built in several ways: each must train as the first does, and all are timed in turns."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pockengine as pock
from benchmarks.peers.case import Case
from benchmarks.turns import Contender, medians_of

AGREEMENT = 1e-3
LOSSES = 2


def step_medians(case: Case, artifacts: Mapping[str, pock.Artifact], rounds: int) -> dict[str, float]:
    """Median milliseconds of a step of each; the process ends with a sentence where one has other losses."""
    feed = case.feed()
    sessions = {name: artifact.load() for name, artifact in artifacts.items()}
    losses = {name: [session.step(feed) for _ in range(LOSSES)] for name, session in sessions.items()}
    expected = next(iter(losses.values()))
    for name, found in losses.items():
        if any(abs(a - b) > AGREEMENT * abs(a) for a, b in zip(expected, found, strict=True)):
            sys.exit(f"{case.workload.title}: the losses of '{name}' are {found} instead of {expected}")
    return medians_of(
        [Contender(name, lambda session=session: session.step(feed)) for name, session in sessions.items()],  # type: ignore[misc]
        rounds,
    )


def parser_of(description: str | None, workloads: Sequence[str], rounds: int | None = None) -> argparse.ArgumentParser:
    """Options of a benchmark of our own steps: `--workload`, `--threads`, `--write`, and `--rounds` where it measures
    in turns."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", nargs="+", default=list(workloads), metavar="NAME", help="(default: %(default)s)")
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds, help="turns of each variant (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT", help="write the table into this Markdown file")
    return parser
