"""How far the predicted peak memory of random schemes is from what their programs measure.

    python -m benchmarks.scheme_costs.estimates [--model NAME ...] [--schemes 17] [--seed N] [--threads N]
                                                [--results FILE.jsonl] [--json] [--write docs/memory.md]

Random schemes are drawn by `pockengine.search.random_choices`. What `pock check`, the service and the page's bar of
memory say of each is compared with the peak resident memory of its program, which is compiled for this machine and
trains for two steps. `--results` keeps a row for each scheme: stopped at any point, the same command goes on, with
another number of schemes too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from safetensors.numpy import save_file

import pockengine as pock
from benchmarks.document import mib, table, write_section
from benchmarks.workloads import FAMILIES, Feed
from pockengine.check import estimate
from pockengine.search import Choice, Space, random_choices
from pockengine.targets import get

from .__main__ import BATCH, MODELS, space_of
from .kept import Kept, OtherRowsError
from .planned import digest

SEED = 7919
STEPS = 2
WITHIN = 0.03
PARTS = ("param_bytes", "state_bytes", "const_bytes", "input_bytes", "arena_bytes", "runtime_bytes")
"""What the page stacks; they sum to the predicted peak."""

MEASURED = {**MODELS, "mcunet": FAMILIES["mcunet"]}
HEAD = ("model, batch 8", "schemes", "peak, MiB", "error, median", "90 %", "largest", "bias", "within 3 %")
ALL = "all"

Row = Mapping[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    with TemporaryDirectory() as temporary:
        try:
            path = options.results or Path(temporary) / "rows.jsonl"
            kept = Kept.of(path, {"seed": options.seed, "threads": options.threads, "steps": STEPS})
        except OtherRowsError as error:
            raise SystemExit(str(error)) from None
        rows = {name: list(_rows(name, kept, options)) for name in options.model}
    figures = {name: figures_of(found) for name, found in rows.items()}
    figures[ALL] = figures_of([row for found in rows.values() for row in found])
    text = table(HEAD, [_line(name, one) for name, one in figures.items()])
    print(json.dumps(figures, indent=1) if options.json else text)
    if options.write:
        write_section(options.write, "estimates", text)
    return 0


def _rows(name: str, kept: Kept, options: argparse.Namespace) -> Iterator[Row]:
    """Of so many schemes of a model; what is not kept yet is compiled and run."""
    family = MEASURED[name]
    space, feed = space_of(family), family.feed(batch=BATCH)
    known = {(row["model"], row["scheme"]): row for row in kept.rows()}
    for number, choice in enumerate(islice(random_choices(space, options.seed), options.schemes)):
        key = name, digest(space, [choice])
        if key not in known:
            row = {"model": name, "scheme": key[1], **measured(space, choice, feed, options.threads)}
            known[key] = row
            kept.add(row)
            told = f"{mib(row['predicted_bytes'])} MiB predicted, {_error(row):+.2%}"
            print(f"{name}: {number + 1} of {options.schemes}, {told}", file=sys.stderr, flush=True)
        yield known[key]


def measured(space: Space, choice: Choice, feed: Feed, threads: int) -> dict[str, Any]:
    """Bytes: the predicted peak of a scheme and its parts, from a plan alone; and the peak that its program measures in
    a process of its own."""
    recipe, target = space.recipe(choice), get("host")
    told = estimate(space.graph, recipe, target, threads)
    artifact = pock.compile(space.graph, recipe, target, threads)
    return {
        "predicted_bytes": told.fit.predicted_peak_bytes,
        **{part: told.summary[part] for part in PARTS},
        "measured_bytes": training_report(artifact, feed, threads)["peak_rss_bytes"],
    }


def training_report(artifact: pock.Artifact, feed: Feed, threads: int) -> dict[str, Any]:
    """What the executable says after STEPS steps on one batch again and again."""
    with TemporaryDirectory(prefix="pock-bench-") as scratch:
        folder = Path(scratch)
        save_file(feed, folder / "data.safetensors")
        command = [
            str(artifact.unpack(folder) / artifact.manifest.entry_points.executable), "train",
            "--data", "data.safetensors", "--steps", str(STEPS), "--threads", str(threads), "--report", "report.json",
        ]  # fmt: skip
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        return dict(json.loads((folder / "report.json").read_text()))


def _error(row: Row) -> float:
    return float(row["predicted_bytes"] / row["measured_bytes"] - 1)


def figures_of(rows: Iterable[Row]) -> dict[str, Any]:
    """How far the predictions are from what was measured, as parts of that. Raises ValueError where the parts of one do
    not sum to it, or there are no rows."""
    rows = list(rows)
    for row in rows:
        if sum(row[part] for part in PARTS) != row["predicted_bytes"]:
            raise ValueError(f"the parts of {row['model']}, {row['scheme']} do not sum to its predicted peak")
    errors, peaks = np.array([_error(row) for row in rows]), [row["measured_bytes"] for row in rows]
    sizes = np.abs(errors)
    return {
        "schemes": len(rows),
        "measured_bytes": [min(peaks), max(peaks)],
        "median": float(np.median(sizes)),
        "p90": float(np.quantile(sizes, 0.9)),
        "largest": float(sizes.max()),
        "bias": float(errors.mean()),
        "within": float(np.mean(sizes <= WITHIN)),
    }


def _line(name: str, found: Row) -> list[str]:
    low, high = found["measured_bytes"]
    return [
        MEASURED[name].title if name in MEASURED else name,
        str(found["schemes"]),
        f"{mib(low)} to {mib(high)}",
        *(f"{found[key]:.2%}" for key in ("median", "p90", "largest")),
        f"{found['bias']:+.2%}",
        f"{found['within']:.0%}",
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=list(MEASURED), default=list(MEASURED))
    parser.add_argument("--schemes", type=int, choices=range(1, 10_001), metavar="N", default=17, help="of each model")
    parser.add_argument("--seed", type=int, default=SEED, help="of the schemes (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=Path, metavar="FILE", help="keeps a row for each scheme")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="a document whose section `estimates` gets the table"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
