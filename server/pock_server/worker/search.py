"""Finds which parameters of the model that lies in a folder to train, by the data that lie there."""

import json
import shutil
from pathlib import Path
from typing import Any

import pockengine as pock
from pock_server.worker.lines import Lines
from pockengine.check import usual_recipe
from pockengine.search.job import Found, read_dataset
from pockengine.search.report import report_page


def search_task(task: dict[str, Any], folder: Path, lines: Lines) -> dict[str, Any]:
    """Make `out/recipe.yaml`, `out/found.json` and `out/report.html` of a task (`runner.workplace`); what is told of
    them. What it finds on the way it keeps in the folder `kept` until it ends, and goes on from what is there. Raises
    PockError."""
    asked = task["search"]
    lines.log(f"which parameters of {task['name']} to train on {task['target']}, {task['threads']} threads")
    lines.progress("import", 0, 1)
    model = folder / "model" / "model.onnx"
    recipe = _base(task["recipe"]).with_loss_files(model.parent) if task["recipe"] else None
    graph = pock.load(model, batch=recipe.batch if recipe else None)
    data = read_dataset(folder / asked["data"])
    held_out = read_dataset(folder / asked["eval_data"]) if asked["eval_data"] else None
    kept = Path(asked["kept"])
    if kept.exists():
        lines.log("an earlier attempt ended before its end; this one goes on from what it found")
    try:
        found = pock.search(
            graph,
            recipe or usual_recipe(graph),
            data,
            task["target"],
            task["threads"],
            eval_data=held_out,
            folder=kept,
            progress=lines.progress,
            at_batch=lambda batch: pock.load(model, batch=batch),
            **{"recompute": False, "micro_batches": False, **asked["options"]},
        )
    finally:
        shutil.rmtree(kept, ignore_errors=True)
    out = folder / "out"
    out.mkdir(exist_ok=True)
    (out / "recipe.yaml").write_text(found.recipe, "utf-8")
    (out / "found.json").write_text(json.dumps(found.to_mapping()), "utf-8")
    (out / "report.html").write_text(report_page(found), "utf-8")
    return _told(found)


def _base(written: dict[str, Any]) -> pock.Recipe:
    """The recipe to begin with. What it updates is not read, so it need not say it. Raises RecipeError."""
    return pock.Recipe.from_mapping({"update": "full", **written})


def _told(found: Found) -> dict[str, Any]:
    """What lists of searches show."""
    chosen, own, full = found.chosen, found.of("found"), found.of("full")
    return {
        "peak_bytes": chosen.cost.peak_bytes,
        "step_ms": chosen.cost.step_ms,
        "gap": chosen.gap,
        "trained_parameters": own.numbers if own else 0,
        "accuracy": own.accuracy if own else None,
        "full_peak_bytes": full.cost.peak_bytes if full else None,
        "full_step_ms": full.cost.step_ms if full else None,
        "full_accuracy": full.accuracy if full else None,
        "joules": found.energy.of_step(chosen.cost.step_ms) if found.energy else None,
        "learning_rates": dict(found.rates.lr) if found.rates else None,
    }
