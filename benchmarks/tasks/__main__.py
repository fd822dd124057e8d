"""Lists the transfer tasks, draws contact sheets of them, and pre-trains the models."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.document import table, write_section

from .models import DOMAINS, MODELS, TASKS, Model
from .pretraining import accuracy_of, pretrained
from .sheets import write_sheets

README = Path(__file__).with_name("README.md")


def listed() -> str:
    """Tables of domains, models and tasks."""
    domains = [[one.name, str(one.classes), one.about] for one in DOMAINS.values()]
    tasks = [
        [one.name, one.domain, str(one.classes), str(one.samples), one.metric.value, one.shift]
        for one in TASKS.values()
    ]
    models = [[model.key, _numbers(model), _accuracy(model)] for model in MODELS.values()]
    return "\n\n".join(
        (
            table(("domain", "classes", "what models are pre-trained on"), domains),
            table(("model", "parameters", "pre-trained to"), models),
            table(("task", "domain", "classes", "samples", "judged by", "how it differs from the pre-training"), tasks),
        )
    )


def _numbers(model: Model) -> str:
    return f"{sum(array.size for array in model.graph().data.values()):,}"


def _accuracy(model: Model) -> str:
    found = accuracy_of(model)
    return "not yet" if found is None else f"{100 * found:.1f} %"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tasks", description=__doc__)
    parser.add_argument("--list", action="store_true", help="tables of all (also without options)")
    parser.add_argument("--show", type=Path, metavar="FOLDER", help="write contact sheets as PNG")
    parser.add_argument("--write", action="store_true", help="write the tables into README.md beside this")
    parser.add_argument("--pretrain", action="store_true", help="pre-train what is not in the cache folder yet")
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS), help="which to pre-train")
    chosen = parser.parse_args()
    if chosen.show:
        for file in write_sheets(chosen.show, DOMAINS, TASKS):
            print(file)
    if chosen.pretrain:
        for key in chosen.model:
            print(f"{key}", file=sys.stderr)
            pretrained(MODELS[key])
    if chosen.write:
        write_section(README, "tasks", listed())
    if chosen.list or not (chosen.show or chosen.pretrain or chosen.write):
        print(listed())


if __name__ == "__main__":
    main()
