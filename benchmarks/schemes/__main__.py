"""Adapts each model to each of its tasks under each scheme, and says what accuracy, memory and time that takes.

Results are kept: a run that was stopped goes on where it was."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.document import ROOT, write_section
from benchmarks.tasks.models import MODELS, TASKS, Model
from benchmarks.tasks.task import Task
from pockengine.codegen.folder_cache import default_folder

from .methods import METHODS, Method, full
from .report import cells_table, schemes_table
from .running import STEPS, Bench, Scheme
from .store import Result, Store

DOCUMENT = ROOT / "docs" / "search.md"
SHARES = (1 / 3, 1 / 2)
"""The parts of full's memory that schemes may take."""
SHORT_MODELS = ("motion/streams", "mcunet/sounds")
SHORT_TASKS = ("new-user", "new-activities", "new-words-said")
SHORT_METHODS = ("head", "bias", "last", "lora", "published")


def chosen_tasks(model: Model, names: list[str] | None) -> tuple[Task, ...]:
    """The model's tasks, or those of them that are named."""
    return tuple(task for task in model.tasks if not names or task.name in names)


def run(models: list[str], tasks: list[str] | None, methods: list[str], store: Store, seeds: int) -> list[Result]:
    """All results, of runs that are made now or were before."""
    found: list[Result] = []
    for key in models:
        bench = Bench(MODELS[key], store, seeds)
        schemes: list[tuple[Scheme, Method]] = [(Scheme("full", 1.0), full)]
        schemes += [(Scheme(name, share), METHODS[name]) for share in SHARES for name in methods]
        for scheme, method in schemes:
            results = list(bench.run(scheme, method, chosen_tasks(MODELS[key], tasks)))
            found += results
            mean = sum(one["accuracy"] for one in results) / len(results) if results else float("nan")
            print(f"{key}: {scheme.name}: {100 * mean:.1f} %", file=sys.stderr)
        bench.close()
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schemes", description=__doc__)
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--task", nargs="+", choices=TASKS)
    parser.add_argument("--method", nargs="*", choices=METHODS, default=list(METHODS), help="beside full")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--short", action="store_true", help="two models, three tasks, two seeds: minutes")
    parser.add_argument("--results", type=Path, default=default_folder() / "schemes.jsonl", help="where runs are kept")
    parser.add_argument("--cells", action="store_true", help="also the table of each model and task")
    parser.add_argument("--write", type=Path, nargs="?", const=DOCUMENT, help="the document that gets the tables")
    chosen = parser.parse_args()
    store = Store(chosen.results)
    if chosen.short:
        found = run(list(SHORT_MODELS), list(SHORT_TASKS), list(SHORT_METHODS), store, seeds=2)
    else:
        found = run(chosen.model, chosen.task, chosen.method, store, chosen.seeds)
    text = f"{schemes_table(found)}\n\n{STEPS} steps a run."
    if chosen.cells or chosen.write:
        text += f"\n\n{cells_table(found)}"
    print(text)
    if chosen.write:
        write_section(chosen.write, "schemes", text)


if __name__ == "__main__":
    main()
