"""Compiles what lies in a folder, and leaves what came of it there."""

import json
import traceback
from pathlib import Path
from typing import Any

import pockengine as pock
from pock_server.worker.cache import adopt
from pock_server.worker.lines import Lines

_INTERNAL = 1000
_OUT_OF_MEMORY = 2003


def build(folder: Path, lines: Lines) -> None:
    """Compile and report; every failure becomes a `failed` line with a sentence for the user."""
    task = json.loads((folder / "task.json").read_text("utf-8"))
    try:
        lines.artifact(compile_task(task, folder, lines))
    except pock.PockError as error:
        # The user knows the model by its name, not by where this process found it.
        lines.failed(int(error.code), str(error).replace(str(_model_path(folder)), task["name"]))
    except MemoryError:
        lines.failed(_OUT_OF_MEMORY, "There is not enough memory to build the model.")
    except Exception:
        lines.log(traceback.format_exc())
        lines.failed(_INTERNAL, "The compiler failed unexpectedly; the build's log has its trace.")


def compile_task(task: dict[str, Any], folder: Path, lines: Lines) -> dict[str, Any]:
    """Make `out/artifact.pock` of a task (name, recipe, target, threads, base); its summary. Raises PockError."""
    lines.log(f"model {task['name']}, target {task['target']}, {task['threads']} threads")
    if task.get("base"):
        try:
            adopt(Path(task["base"]))
        except OSError as error:
            lines.log(f"what was compiled for all builds cannot be used, so it takes longer: {error}")
    recipe = pock.Recipe.from_mapping(task["recipe"])
    model = _model_path(folder)
    recipe = recipe.with_loss_files(model.parent)  # a loss in a file is uploaded as a file of the model
    graph = pock.load(model, batch=recipe.batch)
    artifact = pock.compile(
        graph, recipe, target=task["target"], threads=task["threads"], name=task["name"], progress=lines.progress
    )
    out = folder / "out"
    out.mkdir(exist_ok=True)
    artifact.save(out / "artifact.pock")
    return dict(artifact.summary)


def _model_path(folder: Path) -> Path:
    return folder / "model" / "model.onnx"
