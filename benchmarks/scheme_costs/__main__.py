"""How quickly the estimator of scheme costs answers, and how far it is from planning.

    python -m benchmarks.scheme_costs [--model NAME ...] [--schemes 1000] [--seed N] [--processes N] [--folder PATH]
                                      [--target NAME] [--threads N] [--timed N] [--json]

Random schemes are drawn by `pockengine.search.random_choices`, with another seed than what the estimator learned from;
each is planned and compared. `--folder` keeps what was planned: stopped at any point, the same command goes on, with
another number of schemes too. `--timed` compiles some of them for this machine and runs them in turns, to compare the
expected time of a step with the measured one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import pockengine as pock
from benchmarks.document import mib, table
from benchmarks.peers.torch_models import settled
from benchmarks.turns import Contender, medians_of
from benchmarks.workloads import FAMILIES, Family, images
from pockengine.check.forked import processes
from pockengine.ir import Graph
from pockengine.recipe import Recipe
from pockengine.search import Costs, ExactCosts, Space, random_choices
from pockengine.targets import get

from .kept import Kept, OtherRowsError
from .planned import digest, planned

BATCH = 8
SEED = 4099
ANSWERS = 200
ROUNDS = 5
WITHIN = (0.01, 0.02, 0.05)
WORST = 10
QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99, "largest": 1.0}

_MOBILENET = FAMILIES["mobilenetv2"]
MODELS = {
    "mobilenetv2": replace(
        _MOBILENET,
        title="MobileNetV2 96",
        feed=partial(images, side=96, classes=10),
        config={"image_size": 96, "num_labels": 10},
    ),
    "distilbert": FAMILIES["distilbert"],
}
HEAD = (
    "model", "units", "made in, s", "an answer, ms", "schemes", "peak, MiB", "error, median", "90 %", "99 %", "largest",
    "within 2 %", "of the cycles, median", "largest",
)  # fmt: skip
TIMES = ("model", "steps", "measured, ms", "error, median", "largest", "rank correlation")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    with TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        try:
            found = {name: figures(name, options, folder) for name in options.model}
        except OtherRowsError as error:
            raise SystemExit(str(error)) from None
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    text = table(HEAD, [row(one) for one in found.values()])
    timed = [_times_row(one) for one in found.values() if one["timed"]]
    text += f"\n\n{table(TIMES, timed)}" if timed else ""
    print(text)
    return 0


def figures(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What one model's estimator is worth."""
    family, target = MODELS[name], get(options.target)
    space = space_of(family)
    choices = list(islice(random_choices(space, options.seed), max(ANSWERS, options.schemes)))
    about = {
        "batch": BATCH,
        "seed": options.seed,
        "target": target.name,
        "threads": options.threads or target.cores,
        "schemes": digest(space, choices[:ANSWERS]),
    }
    kept = Kept.of(folder / f"{name}-{target.name}-{options.seed}.jsonl", about)
    start = time.perf_counter()
    costs = Costs(space, target, options.threads)
    seconds = time.perf_counter() - start
    answers = []
    for choice in choices[:ANSWERS]:
        start = time.perf_counter()
        costs.of(choice)
        answers.append(1e3 * (time.perf_counter() - start))
    choices = choices[: options.schemes]
    true = planned(kept, choices, lambda: ExactCosts(space, target, options.threads), options.processes)
    told = [costs.of(choice) for choice in choices]
    peaks = np.array([one.peak_bytes / two.peak_bytes - 1 for one, two in zip(told, true, strict=True)])
    cycles = np.array([one.step_ms / two.step_ms - 1 for one, two in zip(told, true, strict=True)])
    return {
        "model": family.title,
        "units": len(space.units),
        "seed": options.seed,
        "target": target.name,
        "seconds": seconds,
        "answer_ms": statistics.median(answers),
        "schemes": len(true),
        "peak_bytes": [min(one.peak_bytes for one in true), max(one.peak_bytes for one in true)],
        "error": _quantiles(peaks),
        "bias": float(peaks.mean()),
        "within": {str(limit): float(np.mean(np.abs(peaks) <= limit)) for limit in WITHIN},
        "worst": [[int(number), float(peaks[number])] for number in np.argsort(-np.abs(peaks))[:WORST]],
        "cycles": _quantiles(cycles),
        "timed": timed(family, space, options) if options.timed else None,
    }


def _quantiles(errors: np.ndarray[Any, Any]) -> dict[str, float]:
    return {key: float(np.quantile(np.abs(errors), part)) for key, part in QUANTILES.items()}


def graph_of(family: Family, batch: int = BATCH) -> Graph:
    """The model for so many samples a step."""
    feed = family.feed(batch=batch)
    return pock.from_torch(settled(family), (torch.from_numpy(feed[family.input_name]),))


def space_of(family: Family) -> Space:
    """Every scheme of a model, trained by SGD with momentum."""
    return Space.of(graph_of(family), Recipe(family.loss, {"name": "sgd", "lr": 0.01, "momentum": 0.9}))


def timed(family: Family, space: Space, options: argparse.Namespace) -> dict[str, Any]:
    """Expected and measured milliseconds of some schemes on this machine."""
    target = get("host")
    chosen = [space.full, *islice(random_choices(space, options.seed + 1), options.timed - 1)]
    feed = family.feed(batch=BATCH)
    contenders = []
    for number, choice in enumerate(chosen):
        artifact = pock.compile(space.graph, space.recipe(choice), target, options.threads)
        contenders.append(Contender(str(number), _step(artifact, feed)))
    medians = medians_of(contenders, ROUNDS)
    measured = [medians[str(number)] for number in range(len(chosen))]
    costs = Costs(space, target, options.threads)
    fitted = costs.measured([(chosen[0], measured[0])])
    told = [fitted.of(choice).step_ms for choice in chosen]
    return {"measured_ms": measured, "told_ms": told}


def _step(artifact: pock.Artifact, feed: dict[str, Any]) -> Callable[[], float]:
    session = artifact.load()
    return lambda: session.step(feed)


def row(found: dict[str, Any]) -> list[str]:
    """A line of the table."""
    low, high = found["peak_bytes"]
    return [
        found["model"],
        str(found["units"]),
        f"{found['seconds']:.0f}",
        f"{found['answer_ms']:.1f}",
        str(found["schemes"]),
        f"{mib(low)} to {mib(high)}",
        *(f"{one:.1%}" for one in found["error"].values()),
        f"{found['within']['0.02']:.1%}",
        *(f"{found['cycles'][key]:.1%}" for key in ("median", "largest")),
    ]


def _times_row(found: dict[str, Any]) -> list[str]:
    measured, told = (np.array(found["timed"][key]) for key in ("measured_ms", "told_ms"))
    errors = np.abs(told / measured - 1)[1:]
    ranks = [np.argsort(np.argsort(one)).astype(np.float64) for one in (measured, told)]
    return [
        found["model"],
        str(len(measured)),
        f"{measured.min():.0f} to {measured.max():.0f}",
        f"{np.median(errors):.1%}",
        f"{errors.max():.1%}",
        f"{np.corrcoef(ranks[0], ranks[1])[0, 1]:.2f}",
    ]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is below 1")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--schemes", type=_positive, default=1000)
    parser.add_argument("--seed", type=int, default=SEED, help="of the schemes (default: %(default)s)")
    parser.add_argument("--processes", type=_positive, default=processes(), help="that plan (default: one a core)")
    parser.add_argument("--folder", type=Path, help="keeps what was planned; take another for another compiler")
    parser.add_argument("--target", default="raspberry-pi-4")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--timed", type=int, default=0, help="schemes that are compiled and run on this machine")
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
