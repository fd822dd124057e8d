"""A build's inputs and its folder: what the child reads is put there beforehand, what it left is there afterwards.

task.json           name, recipe, target, threads
tuning.jsonl        what the fleet knows, for a build that asks for it
data.safetensors    what a search trains on, and eval.safetensors, what it holds out
model/model.onnx    the model, with its external data and loss files beside it as it names them
out/artifact.pock   what the child makes; of a search, recipe.yaml, found.json and report.html
"""

import fcntl
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy.orm import Session

from pock_server.blobs.repository import Blobs
from pock_server.blobs.store import BlobStore
from pock_server.builds.repository import AllBuilds
from pock_server.builds.schemas import BuildKind, Tune
from pock_server.builds.tables import BuildRecord
from pock_server.datasets.repository import Datasets
from pock_server.models.repository import Models
from pock_server.models.tables import ModelRecord
from pock_server.runner.claims import Broken, Claim
from pock_server.sandbox.memory import drop_abandoned_groups
from pock_server.sandbox.usage import disk_bytes, family
from pock_server.searches.repository import Searches
from pock_server.services import Services
from pock_server.settings import Settings
from pock_server.tuning.knowledge import known_lines, tried_keys

MODEL = "model/model.onnx"
KNOWN = "tuning.jsonl"
DATA, EVAL_DATA = "data.safetensors", "eval.safetensors"
_BAD_DATA = 10004
_PREFIX = "build-"
_RMTREE_TRIES = 20
_log = logging.getLogger(__name__)


class Unusable(Exception):
    """The build ends here; `outcome` says why."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(detail)
        self.outcome = Broken(code, detail)


@dataclass(frozen=True)
class Input:
    """A blob and where the child expects it, relative to the folder."""

    path: str
    digest: str
    size: int


@dataclass(frozen=True)
class Tuning:
    """What the fleet knows, as lines of a file of tuning results (docs/tuning.md); of a build of trials, the keys of
    workloads that are not to be tried."""

    lines: tuple[str, ...]
    without: tuple[str, ...] | None


@dataclass(frozen=True)
class Search:
    """What is asked of a search; `key` is the same for the same request."""

    key: str
    options: dict[str, Any]
    held_out: bool


@dataclass(frozen=True)
class Task:
    """What a build's row, and its model's, say; `seconds` is how long it may take."""

    name: str
    recipe: dict[str, Any]
    target: str
    threads: int
    compiler_version: str
    inputs: tuple[Input, ...]
    seconds: float
    tuning: Tuning | None = None
    search: Search | None = None

    @property
    def noun(self) -> str:
        """What people call it."""
        return "build" if self.search is None else "search"

    @property
    def compiles_for(self) -> str:
        """The target whose C library it needs. A search trains here, and only plans for its target."""
        return self.target if self.search is None else "host"


def load_task(services: Services, claim: Claim) -> Task:
    """The task of a claimed build."""
    with services.database.read() as session:
        row = AllBuilds(session, claim.workspace_id).require(claim.build_id)
        model = Models(session, claim.workspace_id).require(row.model_id)
        blobs = Blobs(session, claim.workspace_id)
        search, data = _search_of(session, row)
        inputs = inputs_of(blobs, model_files(model) | data)
        settings = services.settings
        return Task(
            name=row.name,
            recipe=row.recipe,
            target=row.target,
            threads=row.threads,
            compiler_version=row.compiler_version,
            inputs=inputs,
            seconds=settings.build_timeout_seconds if search is None else settings.search_timeout_seconds,
            tuning=_tuning_of(session, row),
            search=search,
        )


def model_files(model: ModelRecord) -> dict[str, str]:
    """Where a model's files are put, and their digests. Raises `Unusable`."""
    files = {MODEL: model.digest, **{f"model/{name}": digest for name, digest in model.external.items()}}
    if len(files) <= len(model.external):
        raise Unusable(_BAD_DATA, "An external data file of the model has the name of the model's own, model.onnx.")
    return files


def inputs_of(blobs: Blobs, files: Mapping[str, str]) -> tuple[Input, ...]:
    """Files with the sizes that are known of them. Raises `Problem` for one that is not there or damaged."""
    return tuple(Input(path, digest, blobs.require(digest).size) for path, digest in files.items())


def _search_of(session: Session, row: BuildRecord) -> tuple[Search | None, dict[str, str]]:
    """What is asked of a search, and the digests of its data; None and nothing of a build."""
    if row.kind != BuildKind.SEARCH:
        return None, {}
    search, datasets = Searches(session, row.workspace_id).require(row.id), Datasets(session, row.workspace_id)
    files = {DATA: datasets.require(search.dataset_id).digest}
    if search.eval_dataset_id is not None:
        files[EVAL_DATA] = datasets.require(search.eval_dataset_id).digest
    return Search(row.key, search.options, len(files) > 1), files


def _tuning_of(session: Session, row: BuildRecord) -> Tuning | None:
    """What a build is told of the fleet's knowledge; None where it does not ask."""
    if row.kind == BuildKind.SEARCH or (row.kind == BuildKind.MODEL and row.tune == Tune.OFF):
        return None
    lines = known_lines(session, row.workspace_id, row.target)
    if row.kind == BuildKind.MODEL:
        return Tuning(lines, None)
    return Tuning(lines, tried_keys(session, row.workspace_id, row.target, row.tuning_id or ""))


@contextmanager
def workplace(root: Path) -> Iterator[Path]:
    """A new folder below `root` that nobody else can enter; removed at the end, whatever lies in it."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_SH)  # ends with this process, however that ends: see `drop_abandoned`
        yield folder
    finally:
        os.close(held)
        remove(folder)


def drop_abandoned(root: Path) -> None:
    """What processes that were killed left: control groups, children that no sandbox ended with them, folders."""
    drop_abandoned_groups()
    for folder in root.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _end_children(folder)
                _log.info("the folder %s of a process that was killed is removed", folder.name)
                remove(folder)
            finally:
                os.close(held)


def _end_children(folder: Path) -> None:
    """End builds that go on in a folder: leaders of a session whose last argument is a place in it."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            line = process.cmdline()
            if line and Path(line[-1]).is_relative_to(folder) and os.getsid(process.pid) == process.pid:
                _log.warning("process %d builds for a runner that was killed: it is ended", process.pid)
                for one in family(process.pid):
                    with suppress(psutil.Error):
                        one.kill()


def remove(folder: Path) -> None:
    """Remove a folder that a process may still be filling for the moment until its end; links are not followed."""
    for _ in range(_RMTREE_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)
    shutil.rmtree(folder)


def _hold_folder(folder: Path) -> int:
    """A descriptor of the folder, made if needed, which nobody drops while it is open."""
    while True:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileNotFoundError):  # another build dropped it before it was locked
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            fcntl.flock(held, fcntl.LOCK_SH)
            if folder.exists() and os.path.samestat(os.fstat(held), folder.stat()):
                return held
            os.close(held)


@contextmanager
def workspace_cache(settings: Settings, workspace_id: str) -> Iterator[Path]:
    """The folder of what a workspace's builds compile, for one of them; dropped when it has grown too large."""
    folder = settings.effective_build_cache_dir / workspace_id
    held = _hold_folder(folder)
    try:
        yield folder
    finally:
        limit = settings.build_cache_bytes
        if disk_bytes((folder,), limit) > limit:
            with suppress(OSError):  # another build of the workspace is using it, and will look, too
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
        os.close(held)


def fetch(folder: Path, inputs: Sequence[Input], store: BlobStore, limit: int) -> None:
    """Put the inputs into a folder, at most `limit` bytes of them. Raises `Unusable`, `BlobFault`, OSError."""
    total = sum(item.size for item in inputs)
    if total > limit:
        raise Unusable(
            _BAD_DATA, f"The files to read have {total} bytes; a build may read {limit} (POCK_BUILD_DISK_BYTES)."
        )
    for item in inputs:
        path = folder / item.path
        try:
            store.download(item.digest, path)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            detail = f"The model's file {path.name} has the name of a folder of another one of its files."
            raise Unusable(_BAD_DATA, detail) from None
        if path.stat().st_size != item.size:
            detail = f"The stored file {path.name} has {path.stat().st_size} bytes, not {item.size}: upload it again."
            raise Unusable(_BAD_DATA, detail)


def furnish(folder: Path, task: Task, store: BlobStore, limit: int, bases: Sequence[str], cache: str) -> None:
    """Write the task and fetch its inputs, at most `limit` bytes of them; `bases` are where the child finds what was
    compiled for everybody, and for its workspace elsewhere, `cache` where what it leaves stays for the workspace.
    Raises `Unusable`, `BlobFault`, OSError."""
    fetch(folder, task.inputs, store, limit)
    (folder / "out").mkdir(parents=True)
    told: dict[str, Any] = {"name": task.name, "recipe": task.recipe, "target": task.target, "threads": task.threads}
    told["bases"] = list(bases)
    if task.tuning is not None:
        (folder / KNOWN).write_text("".join(f"{line}\n" for line in task.tuning.lines), "utf-8")
        told |= {"tuning": KNOWN, "without": task.tuning.without}
    if task.search is not None:
        kept = str(Path(cache) / "searches" / task.search.key)
        asked = {"options": task.search.options, "kept": kept}
        told["search"] = {**asked, "data": DATA, "eval_data": EVAL_DATA if task.search.held_out else None}
    (folder / "task.json").write_text(json.dumps(told), "utf-8")
