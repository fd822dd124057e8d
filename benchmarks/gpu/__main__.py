"""Checks and measures everything on the GPU of NVIDIA's that is here, and writes one table.

    python -m benchmarks.gpu --out FOLDER [--target h200] [--minutes 25] [--rows NAME ...] [--build]
    python -m benchmarks.gpu --out FOLDER --dry

Needs NVIDIA's driver, torch with CUDA, transformers, pytest and this project with its extra `cuda`. First the
checks: the samples of all operators, the kernels of bf16 in every shape, and ten training steps of several models, as
in the tests but for real, and a step under NVIDIA's memory checker where that is installed. Then single products and
attention beside NVIDIA's libraries. Then rows: our step and PyTorch's by turns, the best of its modes; those of 7 B
parameters write their weights and artifact to FOLDER, 30 GB at a time. What no time is left for is left out, and said.
`--build` compiles the steps into FOLDER and ends: that takes no GPU, and they are taken from there. `--dry` does all of
it in small without a GPU, through the tests' driver, which runs emulated kernels on this processor, and says nothing of
speed. Ends with 1 if a check failed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.document import mib, save_figures, table
from benchmarks.gpu import checks, kernels, measure
from benchmarks.gpu.rows import DRY, KERNELS, ROWS, Row
from pockengine.codegen import backends
from pockengine.codegen.cuda.architecture import architecture_of
from pockengine.codegen.cuda.build import images_of
from pockengine.codegen.gpu.launches import calls_of, kernels_of
from pockengine.compile import compile
from pockengine.compile.planned import Planned
from pockengine.errors import PockError
from pockengine.targets import Target, all, get
from tests.compiler.codegen.cuda.driver import driver_of, here
from tests.compiler.models.agreement import imported, recipe

FAMILIES = (
    ("mlp", "full"), ("mobilenet_v2", "sparse"), ("bert", "full"), ("llama", "lora"), ("vit", "full"),
    ("resnet", "full"), ("convnext", "full"), ("unet2d", "sparse"), ("gru", "full"), ("ds_cnn", "sparse"),
)  # fmt: skip
"""Models of ten steps, and what is trained of each; the dry form has the first."""
HEAD = ("step", "ours, ms", "best peer, ms", "which", "ratio", "at most", "ours, MiB", "peer, MiB", "losses apart")


@dataclass(frozen=True)
class Course:
    """What the options make of a run: its rows, the target, when it ends, where its files lie."""

    rows: tuple[Row, ...]
    target: Target
    name: str
    ends: float
    folder: Path
    dry: bool

    @property
    def device(self) -> str:
        """PyTorch's."""
        return "cpu" if self.dry or not torch.cuda.is_available() else "cuda"

    @property
    def left(self) -> float:
        return max(self.ends - time.monotonic(), 0.0)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--target", help="default: the GPU that nvidia-smi lists first")
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--rows", nargs="+", metavar="NAME", choices=[*KERNELS, *(row.name for row in (*ROWS, *DRY))])
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args(arguments)
    name = checks.HERE if options.dry else options.target or target_of(_listed())
    target = here() if options.dry else get(name).computing("bf16")
    rows = tuple(row for row in (DRY if options.dry else ROWS) if row.name in (options.rows or row.name))
    options.out.mkdir(parents=True, exist_ok=True)
    course = Course(rows, target, name, time.monotonic() + 60 * options.minutes, options.out, options.dry)
    if options.build:
        for row in rows:
            later = "is compiled when it is measured: it takes 14 GB" if row.language else ""
            print(f"{row.name}: {row.missing or later or _built(course, row)[0]}", flush=True)
        return 0
    figures: dict[str, Any] = {
        "target": name,
        "dry": options.dry,
        "checks": _checked(course),
        "kernels": {},
        "rows": {},
    }
    for what in KERNELS:
        if what in (options.rows or KERNELS):
            figures["kernels"][what] = _timed(course, what)
            save_figures(options.out / "gpu.json", figures)
    for row in rows:
        figures["rows"][row.name] = {"missing": row.missing} if row.missing else _measured(course, row)
        save_figures(options.out / "gpu.json", figures)
    text = report(figures, rows)
    (options.out / "gpu.md").write_text(text)
    print(text)
    return int(any(figures["checks"].values()))


def target_of(listed: str) -> str:
    """The target of what `nvidia-smi` says of a GPU, such as `NVIDIA H100 80GB HBM3, 9.0`. Raises SystemExit."""
    name, _, capability = listed.strip().rpartition(", ")
    known = [one.name for one in all() if one.backend == "cuda" and one.name.replace("-", " ") in name.lower()]
    if known or capability.replace(".", "").isdigit():
        return known[0] if known else f"sm_{capability.replace('.', '')}{'a' if capability == '9.0' else ''}"
    raise SystemExit(f"nvidia-smi tells of no GPU ({listed.strip()}): say --target, or --dry")


def report(figures: dict[str, Any], rows: Sequence[Row]) -> str:
    """What was found, for people."""
    parts = ["A dry run, through a driver that emulates: times mean nothing." if figures["dry"] else "Measured."]
    parts[0] += f" Target `{figures['target']}`."
    parts += [f"- {name}: {trouble or 'right'}" for name, trouble in figures["checks"].items()]
    for what, found in figures.get("kernels", {}).items():
        parts += ["", _kernels(what, found)]
    parts += ["", table(HEAD, [_line(row, figures["rows"][row.name]) for row in rows]), ""]
    return "\n".join(parts)


def _kernels(what: str, found: dict[str, Any]) -> str:
    """A table of kernels beside a library's, and the geometric mean of what part of its speed they reach."""
    rows, shares = [], []
    for one in found.get("rows", []):
        if "error" in one:
            rows.append([one["name"], f"none: {one['error']}", "", "", ""])
            continue
        shares.append(one["peer_ms"] / one["ms"])
        times = [f"{one[key]:.3f}" for key in ("ms", "peer_ms")]
        rows.append([one["name"], *times, f"{100 * shares[-1]:.0f} %", f"{one['apart']:.0e}"])
    mean = f"{100 * statistics.geometric_mean(shares):.0f} %" if shares else found.get("error", "none")
    head = (what, "ours, ms", "library's, ms", "of its speed", "results apart")
    return f"{table(head, rows)}\n\nGeometric mean {mean}; wanted: {KERNELS[what]}."


def _line(row: Row, found: dict[str, Any]) -> list[str]:
    if reason := found.get("missing") or found.get("error"):
        return [row.title, f"none: {reason}", "", "", "", row.ask, "", "", ""]
    ours = [row.title, f"{found['ms']:.3f}"]
    ends = [row.ask, mib(found["bytes"])]
    if (quickest := measure.best(found)) is None:
        return [*ours, "none", "; ".join(found["failed"].values())[:200], "", *ends, "", ""]
    peer, ms = quickest
    taken = mib(found["peers"][peer]["bytes"])
    return [*ours, f"{ms:.3f}", peer, f"{found['ms'] / ms:.2f}", *ends, taken, f"{found['loss_difference']:.1e}"]


def _checked(course: Course) -> dict[str, str]:
    """Check -> what was wrong; empty where nothing was."""
    names = checks.DRY_OPS if course.dry else ()
    found = {"samples of operators": _samples(course, names)}
    found["kernels in bf16"] = _halves(course)
    for family, kind in FAMILIES[:1] if course.dry else FAMILIES:
        found[f"ten steps of {family}, {kind}"] = _steps(course, family, kind)
    small, _ = _plan_of(course, *FAMILIES[0])
    path = course.folder / "small.pock"
    small.save(path)
    found |= (
        {f"memory checker, {tool}": said for tool, said in checks.sanitized(path).items()} if not course.dry else {}
    )
    return found


def _samples(course: Course, names: Sequence[str]) -> str:
    backend, variables = backends.get("cuda"), {}
    if course.dry:
        nodes = [case.node for case in checks.cases(tuple(names))]
        lowered = [backend.lower(node, course.target, 1) for node in nodes if backend.unsupported(node) is None]
        calls = [call for one in lowered for call in one.calls]
        variables = _compiled(course, "samples", calls)
    return _compared(_apart(course, variables, "checks", "samples", course.name, "--names", *names))


def _halves(course: Course) -> str:
    variables = {}
    if course.dry:
        calls = [
            call
            for _, lowered, _ in checks.halves(course.target.computing("bf16"), some=True)
            for call in lowered.calls
        ]
        variables = _compiled(course, "halves", calls)
    return _compared(_apart(course, variables, "checks", "halves", course.name))


def _compared(done: dict[str, Any]) -> str:
    """What was wrong with cases that were compared with the interpreter."""
    return str(done.get("error", "")) or ("" if done["samples"] else "there were none")


def _steps(course: Course, family: str, kind: str) -> str:
    variables = {}
    if course.dry:
        variables = _emulated(course, family, calls_of(_plan_of(course, family, kind)[1].programs))
    done = _apart(course, variables, "checks", "steps", course.name, "--names", family, kind)
    return str(done.get("error", "")) or "; ".join(done["problems"])[:500]


def _plan_of(course: Course, family: str, kind: str) -> tuple[Any, Planned]:
    planned: list[Planned] = []
    one = imported(family)
    wanted = recipe(one.family, kind).bound(one.graph)
    artifact = compile(one.graph, wanted, course.target, 2, inspect=lambda made, _: planned.append(made))
    return artifact, planned[0]


def _timed(course: Course, what: str) -> dict[str, Any]:
    """Single kernels beside a library's; a sixth of the time that is left is theirs."""
    variables = {}
    if course.dry:
        backend, target = backends.get("cuda"), course.target.computing("bf16")
        lowered = [backend.lower(pair.node, target, 1) for pair in kernels.pairs_of(what, dry=True)]
        variables = _compiled(course, what, [call for one in lowered for call in one.calls])
    return _apart(course, variables, "kernels", what, course.name, "--seconds", str(course.left / 6))


def _measured(course: Course, row: Row) -> dict[str, Any]:
    """A row's figures, or why there are none. What time is left is shared by the rows that are."""
    seconds = course.left / (len(course.rows) - course.rows.index(row))
    if seconds < 1:
        return {"error": "no time was left"}
    started = time.monotonic()
    try:
        path, variables = _built(course, row)
    except PockError as error:
        return {"error": f"not compiled: {error}"}
    building = time.monotonic() - started
    given = [row.name, str(path), "--seconds", str(max(seconds - building, 1)), *(["--dry"] if course.dry else [])]
    found = _apart(course, variables, "measure", *given)
    if row.language:
        path.unlink()  # its weights are whole in it, and there may be no room for the next one's
    return {"build_seconds": building, **found}


def _built(course: Course, row: Row) -> tuple[Path, dict[str, str]]:
    """The artifact's file, which may be there already, and what its process needs in its environment."""
    path = course.folder / f"{row.name}.pock"
    if path.exists() and not course.dry:
        return path, {}
    artifact, planned = measure.build(row, course.target, course.folder, course.device)
    artifact.save(path)
    return path, _emulated(course, row.name, calls_of(planned.programs)) if course.dry else {}


def _emulated(course: Course, name: str, calls: Sequence[Any]) -> dict[str, str]:
    """A driver for these calls; the environment that makes a process find it."""
    folder = course.folder / f"driver-{name}"
    folder.mkdir(exist_ok=True)
    return {"LD_LIBRARY_PATH": str(driver_of(calls, folder))}


def _compiled(course: Course, name: str, calls: Sequence[Any]) -> dict[str, str]:
    """The same where another process compiles the calls: NVIDIA's compiler looks for a driver, too, and ours is not
    enough for it, so that process finds all compiled."""
    images_of(kernels_of(calls), architecture_of(course.target), None, lambda *_: None)
    return _emulated(course, name, calls)


def _apart(course: Course, variables: dict[str, str], module: str, *arguments: str) -> dict[str, Any]:
    """What a module of this package says at its end, in a process of its own; `error` where it fails."""
    command = [sys.executable, "-m", f"benchmarks.gpu.{module}", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=course.left + 60, env={**os.environ, **variables}
        )
    except subprocess.TimeoutExpired:
        return {"error": "no time was left"}
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return {"error": lines[-1][:300] if lines else f"ended with {done.returncode}"}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def _listed() -> str:
    query = ["nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "nothing"


if __name__ == "__main__":
    sys.exit(main())
