"""Adapts each model to each of its tasks under each scheme. Says what accuracy, memory and time that takes, and what
it shows of the search.

Results stay: a run that was stopped, or whose minutes are over, goes on where it was, a model and task after the other,
each with all seeds. With `--keep` they are added to the file beside this one, and are not run again anywhere."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.document import ROOT, write_section
from benchmarks.tasks.models import MODELS, TASKS
from pockengine.codegen.folder_cache import default_folder

from . import choosing, search_time, step_times
from .campaign import RANDOMS, Campaign, run
from .evidence import criteria_table, evidence_table
from .methods import CRITERIA, METHODS, RANDOM
from .report import cells_table, schemes_table
from .running import Means
from .store import Result, Store

DOCUMENT = ROOT / "docs" / "search.md"
KEPT = Path(__file__).with_name("kept.jsonl")
USUALLY = (*(name for name in METHODS if name not in CRITERIA), RANDOM)
SHORT = Campaign(
    models=("motion/streams",),
    tasks=("new-user", "new-activities"),
    methods=("found", "found-at-once", "evolution", "head", "bias", "last", "lora", RANDOM),
    seeds=2,
    randoms=4,
    steps=200,
)


def campaign_of(chosen: argparse.Namespace) -> Campaign:
    """What is asked for."""
    if chosen.short:
        return SHORT
    methods = tuple(chosen.method) + (tuple(one for one in CRITERIA if one not in chosen.method) * chosen.criteria)
    tasks = tuple(chosen.task) if chosen.task else None
    return Campaign(tuple(chosen.model), tasks, methods, chosen.seeds, chosen.random, minutes=chosen.minutes)


def rows_of(campaign: Campaign, store: Store) -> list[Result]:
    """What the store has of a campaign."""
    wanted = {
        (job.model, job.task, seed, scheme.method, scheme.share)
        for job in campaign.jobs()
        for seed in range(campaign.seeds)
        for scheme in campaign.schemes(job, seed)
    }
    keys = ("model", "task", "seed", "method", "share")
    rows = [one for one in store if one.get("kind") == "row" and one["steps"] == campaign.steps]
    return [one for one in rows if tuple(one[key] for key in keys) in wanted]


def said_of(campaign: Campaign, store: Store, cells: bool) -> str:
    """The tables, as far as results are there."""
    rows = rows_of(campaign, store)
    if not rows:
        return "There are no results yet."
    floats = [row for row in rows if MODELS[row["model"]].frozen is None]
    others = [row for row in rows if MODELS[row["model"]].frozen is not None]
    parts = [f"{campaign.steps} steps a run.", *_tables(list(store), floats)]
    if others:
        models = {row["model"] for row in others}
        about = [one for one in store if one.get("model") in models]
        parts += ["The same where what is not trained is kept as int4:", *_tables(about, others)]
    return "\n\n".join(part for part in (*parts, cells_table(rows) if cells else "") if part)


def _tables(about: list[Result], rows: list[Result]) -> list[str]:
    return [evidence_table(about, rows), criteria_table(rows), schemes_table(rows)] if rows else []


def main() -> None:
    """The command."""
    chosen = _parser().parse_args()
    store, campaign = Store(chosen.results, KEPT), campaign_of(chosen)
    folder = chosen.results.with_suffix("")
    if chosen.search_time:
        search_time.measure(store)
    elif chosen.choosing:
        for model in (MODELS[name] for name in campaign.models):
            for task in campaign.tasks_of(model) if campaign.tasks else model.tasks[:1]:
                choosing.measure(model, task, store, folder)
    elif chosen.step_times:
        for job in campaign.jobs():
            schemes = [one for one in campaign.schemes(job, 0) if one.method in campaign.methods]
            step_times.measure(MODELS[job.model], TASKS[job.task], schemes, store, Means(store, folder))
    elif not chosen.report:
        whole = run(campaign, store, folder, chosen.processes)
        if not whole:
            print("not all of it is there: the same command goes on", file=sys.stderr)
    if chosen.keep:
        store.keep()
    text = said_of(campaign, store, chosen.cells or chosen.write is not None)
    print(text)
    if chosen.write:
        write_section(chosen.write, "schemes", text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schemes", description=__doc__)
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--task", nargs="+", choices=TASKS)
    parser.add_argument("--method", nargs="*", choices=(*METHODS, RANDOM), default=list(USUALLY), help="beside full")
    parser.add_argument("--criteria", action="store_true", help="also compare other ways to find contributions")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--random", type=int, default=RANDOMS, help="random schemes of each model and memory")
    parser.add_argument("--minutes", type=float, help="after which no run begins; the same command goes on")
    parser.add_argument("--processes", type=int, default=2, help="that share the work")
    parser.add_argument("--short", action="store_true", help="one model, two tasks, two seeds: minutes")
    parser.add_argument("--search-time", action="store_true", help="only measure how long a whole search takes")
    told = "only measure what the search and the published one choose, of the first task of each model or those named"
    parser.add_argument("--choosing", action="store_true", help=told)
    told = "only measure how long steps of the schemes take that were chosen, in turns with full"
    parser.add_argument("--step-times", action="store_true", help=told)
    parser.add_argument("--report", action="store_true", help="run nothing: tables of what is there")
    parser.add_argument("--results", type=Path, default=default_folder() / "schemes.jsonl", help="where runs are kept")
    parser.add_argument("--keep", action="store_true", help=f"add what there is to {KEPT.relative_to(ROOT)}")
    parser.add_argument("--cells", action="store_true", help="also the table of each model and task")
    parser.add_argument("--write", type=Path, nargs="?", const=DOCUMENT, help="the document that gets the tables")
    return parser


if __name__ == "__main__":
    main()
