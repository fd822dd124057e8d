"""Which models import, train and match PyTorch, as a table.

    python -m benchmarks.coverage [--json FILE] [--families vit,bert] [--kinds full,sparse]
    python -m benchmarks.coverage --all [--only 'llama*,bert'] [--json FILE] [--failed] [--write docs/models.md]

Without --all: ten steps of a small model of each family, with each recipe. A cell is green where every loss is within
1e-4 (relative), every updated tensor within 1e-3 of its largest element, and nothing frozen has changed; it shows the
larger of the two differences as a share of what is allowed.

With --all: three steps of every architecture of the installed `transformers`, tiny, each in a process of its own. One
agrees where every loss is within 1e-4 and the change of every tensor within 2 % of PyTorch's, in Euclidean norm; where
float32 leaves only rounding, float64 decides. --json names a file of JSON lines that every result is appended to: what
it has already is not tried again, but for --failed, which tries again what did not agree.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.compiler.models.agreement import KINDS
from tests.compiler.models.families import FAMILIES

from . import families
from .architectures import Architecture, architectures
from .outcomes import Engine, Outcome, Until
from .report import table, write
from .sweep import Record, read, sweep

_PROBLEMS = (Outcome.REFUSED_IMPORT, Outcome.REFUSED, Outcome.FAILS, Outcome.WRONG)

console = Console()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if anything in it is not green, or with --all if an architecture fails or is wrong."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not options.all:
        names, kinds = options.families.split(","), options.kinds.split(",")
        for name in names:
            if name not in FAMILIES:
                parser.error(f"there is no family '{name}': choose of {', '.join(FAMILIES)}")
        return families.measure(names, kinds, options.json)
    if options.failed and not options.json:
        parser.error("--failed needs --json FILE with the results of an earlier sweep")
    chosen = _chosen(options.only.split(","))
    if not chosen:
        parser.error(f"no architecture matches '{options.only}': name model types of transformers")
    return _swept(chosen, options)


def _chosen(patterns: Sequence[str]) -> list[Architecture]:
    known = architectures()
    return [known[name] for name in known if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _swept(chosen: Sequence[Architecture], options: argparse.Namespace) -> int:
    records = read(options.json) if options.json else {}
    if options.failed:
        waiting = [a for a in chosen if records.get(a.model_type, {}).get("outcome") != Outcome.AGREES]
    else:
        waiting = [a for a in chosen if a.model_type not in records]
    # The bar is drawn only between trials: a thread that draws could hold a lock while a trial's process is forked.
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, auto_refresh=False) as progress:
        task = progress.add_task("architectures", total=len(waiting))

        def done(record: Record) -> None:
            records[record["model_type"]] = record
            if record["outcome"] in _PROBLEMS:
                name, outcome, reason = (record[key] for key in ("model_type", "outcome", "reason"))
                progress.console.print(f"{name}: {outcome}: {reason}", markup=False, highlight=False, soft_wrap=True)
            progress.advance(task)
            progress.refresh()

        sweep(waiting, options.json, options.jobs, Until(options.until), Engine(options.engine), done)
    found = [records[a.model_type] for a in chosen if a.model_type in records]
    console.print(table(found))
    if options.write:
        write(options.write, found)
    return int(any(record["outcome"] in (Outcome.FAILS, Outcome.WRONG) for record in found))


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {value}")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coverage", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE; with --all, JSON lines")
    parser.add_argument("--families", default=",".join(FAMILIES), help="comma-separated (default: all)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="recipes, comma-separated (default: %(default)s)")
    parser.add_argument("--all", action="store_true", help="every architecture of transformers instead of the families")
    every = parser.add_argument_group("with --all")
    every.add_argument("--only", default="*", metavar="GLOB", help="model types, comma-separated (default: all)")
    every.add_argument("--failed", action="store_true", help="try again what did not agree")
    every.add_argument("--jobs", type=_count, default=1, metavar="N", help="trials at a time (default: 1)")
    every.add_argument(
        "--engine", choices=list(Engine), default=Engine.MIXED.value,
        help="what computes our steps: machine code, the interpreter of the planned step, which is several times "
        "quicker, or a third by machine code (default: %(default)s)",
    )  # fmt: skip
    every.add_argument(
        "--until", choices=list(Until), default=Until.TRAINED.value,
        help="stop after a stage: trained in PyTorch, imported, or all of it (default)",
    )  # fmt: skip
    every.add_argument("--write", type=Path, metavar="DOCUMENT", help="write the table into docs/models.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
