"""What each pass is worth: our step with one pass switched off at a time, all variants measured in turns.

    python -m benchmarks.ablation [--workload NAME ...] [--rounds N] [--write docs/performance.md]

Every variant must train as the whole compiler does. `expand_composites`, `tidy` and `channels_last` cannot be left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pockengine as pock
from benchmarks.document import mib, table, write_section
from benchmarks.peers.case import Case
from benchmarks.peers.prepare import graph_of, recipe_of
from benchmarks.turns import Contender, medians_of
from benchmarks.workloads import WORKLOADS
from pockengine.passes import PIPELINE, channels_last, expand_composites, tidy

DEFAULT = ("mobilenetv2-b1-full", "mobilenetv2-b8-last8", "distilbert-b8-last2")
REMOVABLE = tuple(
    dict.fromkeys(
        apply.__name__
        for apply in PIPELINE.algebra + PIPELINE.shaping
        if apply not in (expand_composites, tidy, channels_last)
    )
)
WHOLE = "nothing"
AGREEMENT = 1e-3
LOSSES = 2


@dataclass(frozen=True)
class Variant:
    """The step without a pass."""

    contender: Contender
    artifact: pock.Artifact


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    sections = []
    for name in options.workload:
        variants = _variants(Case.named(name), options.threads)
        rows = _rows(variants, medians_of([variant.contender for variant in variants.values()], options.rounds))
        text = table(["switched off", "ms", "time", "peak memory of tensors, MiB", "GFLOP", "kernels"], rows)
        sections.append(f"{WORKLOADS[name].title}:\n\n{text}")
        print(sections[-1], flush=True)
    if options.write:
        write_section(options.write, "ablation", "\n\n".join(sections))
    return 0


def _variants(case: Case, threads: int) -> dict[str, Variant]:
    graph, feed = graph_of(case), case.feed()
    variants: dict[str, Variant] = {}
    expected: list[float] = []
    for off in (WHOLE, *REMOVABLE):
        pipeline = PIPELINE if off == WHOLE else PIPELINE.without(off)
        artifact = pock.compile(graph, recipe_of(case), threads=threads, pipeline=pipeline)
        session = artifact.load()
        losses = [session.step(feed) for _ in range(LOSSES)]
        expected = expected or losses
        if any(abs(a - b) > AGREEMENT * abs(a) for a, b in zip(expected, losses, strict=True)):
            sys.exit(f"{case.workload.title}: without {off} the losses are {losses} instead of {expected}")
        variants[off] = Variant(Contender(off, lambda session=session: session.step(feed)), artifact)  # type: ignore[misc]
        print(f"{case.workload.title}: without {off} compiled", file=sys.stderr)
    return variants


def _rows(variants: Mapping[str, Variant], medians: Mapping[str, float]) -> list[list[str]]:
    rows = []
    for off, variant in variants.items():
        summary = variant.artifact.summary
        rows.append(
            [
                off if off == WHOLE else f"`{off}`",
                f"{medians[off]:.1f}",
                f"{medians[off] / medians[WHOLE]:.2f}x",
                mib(summary["arena_bytes"]),
                f"{sum(summary['flops'].values()) / 1e9:.2f}",
                str(summary["kernels"]),
            ]
        )
    return rows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", nargs="+", default=list(DEFAULT), metavar="NAME", help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each variant (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT", help="write the table into this Markdown file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
