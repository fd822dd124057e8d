"""What each pass is worth: our step with one pass switched off at a time, all variants measured in turns; and without
the processor's tiles, where it has them.

    python -m benchmarks.ablation [--workload NAME ...] [--rounds N] [--write docs/performance.md]

Every variant must train as the whole compiler does. Passes that others take for granted (`Pass.makes`) stay.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pockengine as pock
from benchmarks.document import mib, table, write_section
from benchmarks.peers.case import Case
from benchmarks.peers.prepare import graph_of, recipe_of
from benchmarks.variants import parser_of, step_medians
from benchmarks.workloads import WORKLOADS
from pockengine.plan.pipeline import PIPELINE
from pockengine.targets import get

DEFAULT = ("mobilenetv2-b1-full", "mobilenetv2-b8-last8", "distilbert-b8-last2")
REMOVABLE = PIPELINE.removable()
WHOLE, TILES = "nothing", "products in AMX tiles"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser_of(__doc__, DEFAULT, rounds=10).parse_args(arguments)
    sections = []
    for name in options.workload:
        case = Case.named(name)
        artifacts = _artifacts(case, options.threads)
        rows = _rows(artifacts, step_medians(case, artifacts, options.rounds))
        text = table(["switched off", "ms", "time", "peak memory of tensors, MiB", "GFLOP", "kernels"], rows)
        sections.append(f"{WORKLOADS[name].title}:\n\n{text}")
        print(sections[-1], flush=True)
    if options.write:
        write_section(options.write, "ablation", "\n\n".join(sections))
    return 0


def _artifacts(case: Case, threads: int) -> dict[str, pock.Artifact]:
    """By the name of the pass that is switched off."""
    graph, artifacts = graph_of(case), dict[str, pock.Artifact]()
    for off in (WHOLE, *REMOVABLE):
        pipeline = PIPELINE if off == WHOLE else PIPELINE.without(off)
        artifacts[off] = pock.compile(graph, recipe_of(case), threads=threads, pipeline=pipeline)
        print(f"{case.workload.title}: without {off} compiled", file=sys.stderr)
    if get("host").uses_tiles:
        plain = replace(get("host").without_tiles(), name="host-without-tiles")
        artifacts[TILES] = pock.compile(graph, recipe_of(case), plain, threads)
    return artifacts


def _rows(artifacts: Mapping[str, pock.Artifact], medians: Mapping[str, float]) -> list[list[str]]:
    rows = []
    for off, artifact in artifacts.items():
        summary = artifact.summary
        rows.append(
            [
                f"`{off}`" if off in REMOVABLE else off,
                f"{medians[off]:.1f}",
                f"{medians[off] / medians[WHOLE]:.2f}x",
                mib(summary["arena_bytes"]),
                f"{sum(summary['flops'].values()) / 1e9:.2f}",
                str(summary["kernels"]),
            ]
        )
    return rows


if __name__ == "__main__":
    sys.exit(main())
