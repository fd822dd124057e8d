"""Compiles one build and stores what came out of it as blobs."""

import json
import tempfile
import traceback
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pockengine as pock
from pock_server.blobs.opening import open_store
from pock_server.blobs.store import BlobStore
from pock_server.builds.tables import BuildRecord
from pock_server.db.engine import make_engine
from pock_server.db.unit import Database
from pock_server.models.repository import Models
from pock_server.settings import Settings
from pock_server.worker.lines import Lines

_INTERNAL = 1000


@dataclass(frozen=True)
class Task:
    """A build's inputs, as its row and its model's row name them."""

    name: str
    recipe: dict[str, Any]
    target: str
    threads: int
    model_digest: str
    external: dict[str, str]


def build(settings: Settings, build_id: str, lines: Lines) -> None:
    """Compile and report; every failure becomes a `failed` line with a sentence for the user."""
    task = _load(settings, build_id)
    store = open_store(settings)
    with tempfile.TemporaryDirectory(prefix="pock-build-") as folder:
        try:
            lines.artifact(_compile(task, store, Path(folder), lines))
        except pock.PockError as error:
            # The user knows the model by its name, not by where this process put it.
            lines.failed(int(error.code), str(error).replace(str(_model_path(Path(folder))), task.name))
        except Exception:
            lines.log(traceback.format_exc())
            lines.failed(_INTERNAL, "The compiler failed unexpectedly; the build's log has its trace.")


def _load(settings: Settings, build_id: str) -> Task:
    with Database(make_engine(settings), lambda topic: None).read() as session:
        row = session.get_one(BuildRecord, build_id)
        model = Models(session, row.workspace_id).require(row.model_id)
        return Task(row.name, row.recipe, row.target, row.threads, model.digest, model.external)


def _compile(task: Task, store: BlobStore, folder: Path, lines: Lines) -> dict[str, Any]:
    lines.log(f"model {task.name}, target {task.target}, {task.threads} threads")
    recipe = pock.Recipe.from_mapping(task.recipe)
    model = _model_path(folder)
    store.download(task.model_digest, model)
    for file, digest in task.external.items():
        store.download(digest, model.parent / file)
    recipe = recipe.with_loss_files(model.parent)  # a loss in a file is uploaded as a file of the model
    graph = pock.load(model, batch=recipe.batch)
    artifact = pock.compile(
        graph, recipe, target=task.target, threads=task.threads, name=task.name, progress=lines.progress
    )
    path = folder / "artifact.pock"
    artifact.save(path)
    return {**_store(path, store), "summary": artifact.summary}


def _model_path(folder: Path) -> Path:
    return folder / "model" / "model.onnx"


def _store(path: Path, store: BlobStore) -> dict[str, Any]:
    """Store the artifact whole, and each member on its own so that a device fetches only what it lacks."""
    digest, size = store.put_file(path)
    members = {}
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        for name in archive.namelist():
            member_digest, member_size = store.put_bytes(archive.read(name))
            members[name] = {"sha256": member_digest, "size": member_size}
    return {
        "digest": digest,
        "size": size,
        "members": members,
        "executable": manifest["entry_points"]["executable"],
        "inputs": manifest["inputs"],
    }
