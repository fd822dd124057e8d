"""`python -m tests.compiler.fuzz --graphs 2000 --gradients 2000 --files 2000 --seed 0`: random models as machine code
against the interpreter, gradients of random graphs at singular points against PyTorch, then damaged model files and
recipes; prints what became of them, and every failure in full."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from . import files, gradients, mutations, recipes
from .graphs import drawn
from .isolated import FAILED, run_all
from .pipeline import Tally, check_places, check_text, explained, in_machine_code, prepare

TOGETHER = 250
"""Models compiled into one shared object."""

_Job = TypeVar("_Job")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compiler.fuzz", description=__doc__)
    parser.add_argument("--graphs", type=int, default=2000, help="random models through the C backend")
    parser.add_argument("--gradients", type=int, default=2000, help="random graphs differentiated here and by PyTorch")
    parser.add_argument("--files", type=int, default=2000, help="damaged files: three ONNX files to one recipe")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failures = _graphs(options.graphs, options.seed) if options.graphs else []
    failures += _gradients(options.gradients, options.seed) if options.gradients else []
    models = [
        files.File(title, content, number)
        for number, (title, content) in enumerate(mutations.mutants(options.seed, options.files * 3 // 4))
    ]
    texts = list(recipes.mutants(options.seed, options.files - len(models)))
    failures += _damaged("ONNX files", files.examine, models, lambda job: f"{job.title} (number {job.seed})")
    failures += _damaged("recipes", recipes.examine, texts, lambda job: f"{job.title} {job.content!r}")
    for failure in failures:
        print(f"\n{failure}")
    return 1 if failures else 0


def _graphs(count: int, seed: int) -> list[str]:
    began, tally, cases = time.perf_counter(), Tally(), drawn(count, seed)
    for start in range(0, len(cases), TOGETHER):
        ready = []
        for case in cases[start : start + TOGETHER]:
            with explained(case):
                one = prepare(case)
                if one.planned is None:
                    tally.refused += 1
                    continue
                check_text(one.planned)
                check_places(one.planned)
            ready.append(one)
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            for one, found in in_machine_code(ready, Path(folder)):
                tally.add(one, found)
    operators = {node.op for case in cases for node in case.model.nodes}
    print(
        f"{len(cases)} random models of {len(operators)} operators: {tally.agreed} agree, {tally.refused} refused with "
        f"one sentence, {len(tally.differences)} differ; {tally.numbers} numbers compared, of which f32 cannot tell "
        f"{tally.unsure} ({_since(began)})",
        flush=True,
    )
    return tally.differences


def _gradients(count: int, seed: int) -> list[str]:
    began, tally, cases = time.perf_counter(), gradients.Tally(), gradients.drawn(count, seed)
    for start in range(0, len(cases), TOGETHER):
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            tally.add(cases[start : start + TOGETHER], Path(folder))
    operators = {node.op for case in cases for node in case.graph.nodes}
    stops = sum(any(node.op == "stop_gradient" for node in case.graph.nodes) for case in cases)
    print(
        f"gradients of {len(cases)} random graphs of {len(operators)} operators, {stops} of them with stopped "
        f"gradients: {tally.agreed} agree with PyTorch, {tally.refused} refused with one sentence, "
        f"{len(tally.differences)} differ; {tally.numbers} numbers compared, of which PyTorch's own precisions differ "
        f"in {tally.unsure} ({_since(began)})",
        flush=True,
    )
    return tally.differences


def _damaged(
    what: str, work: Callable[[_Job], str], jobs: Sequence[_Job], title: Callable[[_Job], str]
) -> Iterable[str]:
    began, kinds, failures = time.perf_counter(), Counter[str](), []
    for job, outcome in zip(jobs, run_all(work, jobs), strict=True):
        kinds[outcome.kind] += 1
        if outcome.kind == FAILED:
            failures.append(f"{title(job)}: {outcome.detail}")
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    print(f"{len(jobs)} damaged {what}: {counts} ({_since(began)})", flush=True)
    return failures


def _since(began: float) -> str:
    return f"{time.perf_counter() - began:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
