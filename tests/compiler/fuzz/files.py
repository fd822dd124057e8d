"""A damaged ONNX file through everything that reads one, and its result against ONNX Runtime's."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from pockengine.check import check_file
from pockengine.compile import Request, plan_inference, plan_programs
from pockengine.errors import PockError
from pockengine.frontends import load, survey
from pockengine.ir import Array, Graph
from pockengine.plan import aligned
from pockengine.plan.program import Location
from pockengine.plan.space import Space
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.plan.simulation import Memory, simulate

from . import seeds
from .isolated import ONLY_OURS, RIGHT, foreign

BATCH = 2
MOST_BYTES = 1 << 28
"""Models that need more are planned, not run."""


@dataclass(frozen=True)
class File:
    """What was done to it, its bytes, and the seed of its inputs."""

    title: str
    content: bytes
    seed: int


class WrongResult(Exception):
    """Outputs that are not ONNX Runtime's."""


def examine(file: File) -> str:
    """Survey, check, import, plan training, plan and run inference. Raises PockError or WrongResult."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        path = Path(folder) / "m.onnx"
        path.write_bytes(file.content)
        survey(path, ["*"])
        model = load(path, batch=BATCH)
        _train(path, model)
        return _infer(path, model, file.seed)


def _train(path: Path, model: Graph) -> None:
    """Training's plan; a model that cannot be trained is no error of the model."""
    outputs = [name for name, value in model.outputs.items() if value.type.dtype.is_float]
    if not outputs or not model.params:
        return
    recipe = Recipe(loss={"name": "mse", "output": outputs[0]}, optimizer={"name": "sgd", "momentum": 0.9})
    for attempt in (
        lambda: check_file(path, recipe, "host", batch=BATCH),
        lambda: plan_programs(Request(model, recipe, get("host"), threads=2)),
    ):
        try:
            attempt()
        except PockError as error:
            assert "\n" not in str(error), str(error)


def _infer(path: Path, model: Graph, seed: int) -> str:
    inference = plan_inference(model, get("host"), threads=2)
    sizes = {
        Space.ARENA: aligned(inference.program.plan.arena_bytes, inference.spaces.alignment),
        **inference.spaces.sizes,
    }
    if sum(sizes.values()) > MOST_BYTES:
        return ONLY_OURS
    if not all(np.isfinite(array).all() for array in model.data.values() if array.dtype == np.float32):
        return ONLY_OURS  # what infinities do on their way is up to the order of the arithmetic
    arrays = seeds.inputs_of(onnx.load(path), seed)
    try:
        with foreign():
            expected = _expected(path, arrays)
    except Exception:  # whatever ONNX Runtime raises: a file that it does not take has no right result
        return ONLY_OURS
    memory = Memory(sizes)
    for location, array in inference.spaces.consts.values():
        memory.write(location, array)
    for value in model.params:
        place = inference.spaces.places.get((Space.PARAM, value.name))
        if place:
            memory.write(place, model.data[value.name])
    for value in inference.program.graph.inputs:
        memory.write(_input(inference.spaces.places, value.name), arrays[value.name])
    found = simulate(inference.program, memory)
    for name, want in expected.items():
        _compare(name, found[name], want)
    return RIGHT


def _input(places: dict[tuple[Space, str], Location], name: str) -> Location:
    return places[Space.INPUT, name]


def _expected(path: Path, arrays: dict[str, Array]) -> dict[str, Array]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    wanted = {value.name for value in session.get_inputs()}
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, {n: a for n, a in arrays.items() if n in wanted}), strict=True))


def _compare(name: str, found: Array, want: Array) -> None:
    want = np.asarray(want)
    if found.shape != want.shape or found.dtype != want.dtype:
        raise WrongResult(f"{name} is {found.dtype}{found.shape} instead of {want.dtype}{want.shape}")
    if want.dtype.kind in "fV":
        found, want = (array.astype(np.float64) for array in (found, want))
        finite = np.isfinite(want) & (np.abs(want) < 1e30)
        bound = 1e-3 * max(1.0, float(np.max(np.abs(want), initial=0.0, where=finite)))
        if not (np.abs(found - want)[finite] <= bound).all():
            raise WrongResult(f"{name}: {found[finite][:3]} instead of {want[finite][:3]}")
    elif not np.array_equal(found, want):
        raise WrongResult(f"{name}: {found.reshape(-1)[:4]} instead of {want.reshape(-1)[:4]}")
