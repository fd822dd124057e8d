"""Serves the task that lies in a folder, and leaves what came of it there: compiles, or has a search done."""

import json
import traceback
from pathlib import Path
from typing import Any

import pockengine as pock
from pock_server.worker.cache import adopt
from pock_server.worker.lines import Lines
from pock_server.worker.search import search_task
from pockengine.compile.request import Request
from pockengine.compile.trials import compile_trials
from pockengine.ir import Graph
from pockengine.targets import get as get_target
from pockengine.tune import FileStore

_INTERNAL = 1000
_OUT_OF_MEMORY = 2003
_NOTHING_TO_TRY = 2008


class NothingToTry(Exception):
    """A build of trials has no workload; the message ends a sentence."""


def build(folder: Path, lines: Lines) -> None:
    """Work and report; every failure becomes a `failed` line with a sentence for the user."""
    task = json.loads((folder / "task.json").read_text("utf-8"))
    _adopt(task, lines)
    serve = search_task if "search" in task else compile_task
    try:
        lines.artifact(serve(task, folder, lines))
    except pock.PockError as error:
        # The user knows the model by its name, and other files not by where this process found them.
        text = str(error).replace(str(_model_path(folder)), task["name"]).replace(f"{folder}/", "")
        lines.failed(int(error.code), text)
    except NothingToTry as error:
        lines.failed(_NOTHING_TO_TRY, f"Nothing is left to try: {error}.")
    except MemoryError:
        lines.failed(_OUT_OF_MEMORY, "There is not enough memory to build the model.")
    except Exception:
        lines.log(traceback.format_exc())
        lines.failed(_INTERNAL, "The compiler failed unexpectedly; the build's log has its trace.")


def _adopt(task: dict[str, Any], lines: Lines) -> None:
    """Take over what was compiled for all builds."""
    for base in task.get("bases", ()):
        try:
            adopt(Path(base))
        except OSError as error:
            lines.log(f"what was compiled for all builds cannot be used, so it takes longer: {error}")


def compile_task(task: dict[str, Any], folder: Path, lines: Lines) -> dict[str, Any]:
    """Make `out/artifact.pock` of a task (`runner.workplace`); its summary. Raises PockError, NothingToTry."""
    lines.log(f"model {task['name']}, target {task['target']}, {task['threads']} threads")
    recipe = pock.Recipe.from_mapping(task["recipe"])
    model = _model_path(folder)
    recipe = recipe.with_loss_files(model.parent)  # a loss in a file is uploaded as a file of the model
    graph = pock.load(model, batch=recipe.batch)
    out = folder / "out"
    out.mkdir(exist_ok=True)
    store = FileStore(folder / task["tuning"]) if task.get("tuning") else None
    if store is not None and task["without"] is not None:
        return _try(task, graph, recipe, store, lines, out)
    artifact = pock.compile(
        graph,
        recipe,
        target=task["target"],
        threads=task["threads"],
        name=task["name"],
        progress=lines.progress,
        tune="off" if store is None else "known",
        store=store,
    )
    artifact.save(out / "artifact.pock")
    # The manifest lists each schedule; lists of builds would grow long with them.
    return {key: value for key, value in artifact.summary.items() if key != "schedules"}


def _try(
    task: dict[str, Any], graph: Graph, recipe: pock.Recipe, store: FileStore, lines: Lines, out: Path
) -> dict[str, Any]:
    """Make an artifact of trials instead of the model's. Raises PockError, NothingToTry."""
    target = get_target(task["target"])
    request = Request(graph, recipe, target, task["threads"], task["name"], progress=lines.progress)
    pack = compile_trials(request, store, task["without"])
    if pack is None:
        raise NothingToTry("everything that this model computes is known, or was tried")
    lines.log(f"{pack.workloads} workloads to try, {pack.left} more after them")
    pack.artifact.save(out / "artifact.pock")
    return {**pack.artifact.summary, "left": pack.left}


def _model_path(folder: Path) -> Path:
    return folder / "model" / "model.onnx"
