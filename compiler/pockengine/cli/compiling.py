"""`pock compile` and `pock check`: from options to library calls, with progress on stderr."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..check import Estimate, check_file, check_scheme, compare_schemes
from ..codegen.backends import get as get_backend
from ..compile import Planned, compile
from ..errors import DynamicShapeError, PockError
from ..frontends import load
from ..recipe import Recipe
from ..sizes import parse_size
from ..targets import get as get_target
from ..tune import FileStore, Tuning, check_mode
from .progress import progress


@dataclass(frozen=True)
class CompileRequest:
    """The options of `pock compile`."""

    model: Path
    recipe: Path
    output: Path
    target: str
    batch: int | None
    threads: int | None
    dims: Mapping[str, int]
    name: str | None
    dump: Path | None
    memory: int | None = None
    tune: str = "off"
    explain: bool = False
    compute: str = "f32"
    import_losses: bool = False
    backend: str | None = None
    tuning: Path | None = None


@dataclass(frozen=True)
class CheckRequest:
    """The options of `pock check`."""

    model: Path
    recipe: Path | None
    target: str
    batch: int | None
    dims: Mapping[str, int]
    memory: int | None = None
    import_losses: bool = False
    backend: str | None = None
    compare: Mapping[str, str] = field(default_factory=dict)


def parse_compare(text: str | None) -> dict[str, str]:
    """`"full,last4,found=r.yaml"` -> {"full": "full", "last4": "last4", "found": "r.yaml"}. Raises PockError."""
    if text is None:
        return {}
    named: dict[str, str] = {}
    for part in text.split(","):
        name, equals, path = (one.strip() for one in part.partition("="))
        if not name or (equals and not path):
            raise PockError(f"--compare takes names of schemes and NAME=RECIPE.yaml, with commas between, not '{text}'")
        if name in named:
            raise PockError(f"--compare has '{name}' twice: give each scheme a name of its own")
        named[name] = path if equals else name
    return named


def parse_dims(texts: Sequence[str]) -> dict[str, int]:
    """`["batch=8"]` -> `{"batch": 8}`."""
    dims: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name or not value.isdigit() or int(value) < 1:
            raise DynamicShapeError(f"--dim takes NAME=VALUE, such as batch=8, not '{text}'")
        dims[name] = int(value)
    return dims


def parse_memory(text: str | None) -> int | None:
    """`"64MiB"` -> 67108864. Raises PockError where it is no size."""
    size = None if text is None else parse_size(text)
    if text is not None and size is None:
        raise PockError(f"--memory takes a size such as 64MiB, 1.5GiB or 800MB, not '{text}'")
    return size


def check_output(path: Path, what: str, example: str) -> None:
    """Refuse a place where no file can be written, before any work is done. Raises PockError."""
    if not path.absolute().parent.is_dir():
        raise PockError(f"the folder '{path.parent}' for the {what} does not exist")
    if path.is_dir():
        raise PockError(f"'{path}' is a folder: name a file, such as '{path / example}'")


def _named(backend: str | None) -> None:
    """Raises PockError where there is no such backend."""
    if backend is not None:
        get_backend(backend)


def compile_model(request: CompileRequest, *, as_json: bool) -> None:
    """Compile and save; what cannot work is refused before any work is done."""
    recipe = Recipe.load(request.recipe, request.import_losses)
    target = get_target(request.target).computing(request.compute)
    check_mode(request.tune)
    _named(request.backend)
    if request.tuning is not None and request.tune == "off":
        raise PockError("--tuning goes with --tune known, fast or full")
    store = None if request.tuning is None else FileStore(request.tuning)
    check_output(request.output, "artifact", "model.pock")
    batch = request.batch if request.batch is not None else recipe.batch
    explanation: dict[str, Any] = {}

    def look(planned: Planned, tuning: Tuning) -> None:
        from ..insight import explain

        explanation["explain"] = explain(planned, tuning)

    with progress() as report:
        report("import", 0, 1)
        graph = load(request.model, request.dims, batch)
        report("import", 1, 1)
        artifact = compile(
            graph,
            recipe.with_batch(batch),
            target,
            request.threads,
            name=request.name,
            progress=report,
            dump=request.dump,
            memory=request.memory,
            tune=request.tune,
            store=store,
            backend=request.backend,
            inspect=look if request.explain else None,
        )
        artifact.save(request.output)
    summary = {**artifact.summary, "output": str(request.output)}
    if as_json:
        print(json.dumps({**summary, **explanation}))
        return
    from . import console, explaining  # what draws tables takes a while to import

    console.show_summary(request.output, target.name, summary)
    if request.explain:
        explaining.show_explanation(explanation["explain"])


def check_model(request: CheckRequest, *, as_json: bool) -> bool:
    """Print the report; returns whether the model can be compiled."""
    wanted = Recipe.load(request.recipe, request.import_losses) if request.recipe else None
    _named(request.backend)
    with progress(moving=False) as report:  # without threads, the check may use a second process
        report("check", 0, 1)
        result = check_file(
            request.model, wanted, request.target, request.dims, request.batch, request.memory, request.backend
        )
        report("check", 1, 1)
    if as_json:
        print(json.dumps(result.to_mapping()))
    else:
        from .checking import show_check  # what draws tables takes a while to import

        show_check(result)
    return result.supported


def compare_model(request: CheckRequest, *, as_json: bool) -> None:
    """Print the estimates of the schemes that are named."""
    wanted = Recipe.load(request.recipe, request.import_losses) if request.recipe else None
    schemes = {name: _scheme(name, text, request.import_losses) for name, text in request.compare.items()}
    target = get_target(request.target)
    _named(request.backend)
    batch = request.batch if request.batch is not None else wanted.batch if wanted else None
    with progress() as report:
        report("check", 0, 1)
        graph = load(request.model, request.dims, batch, need_weights=False)
        compared = compare_schemes(graph, wanted, target, schemes, request.memory, request.backend)
        report("check", 1, 1)
    if as_json:
        print(json.dumps({"recipes": {name: _plain(found) for name, found in compared.items()}}))
    else:
        from .checking import show_compared  # what draws tables takes a while to import

        show_compared(compared)


def _scheme(name: str, text: str, import_losses: bool) -> Recipe | str:
    """The recipe of a file; what a name alone stands for is known when the model is."""
    if text != name:
        return Recipe.load(text, import_losses)
    check_scheme(name)
    return name


def _plain(found: Estimate | str) -> dict[str, Any]:
    return {"error": found} if isinstance(found, str) else found.to_mapping()
