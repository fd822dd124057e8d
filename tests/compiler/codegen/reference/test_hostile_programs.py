"""Programs that somebody changed to hurt whoever runs them: each is refused before anything runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from pockengine.codegen import backends
from pockengine.codegen.reference.machine import Machine
from pockengine.codegen.reference.reading import parse
from pockengine.compile import Request, plan_programs
from pockengine.compile.build import describe
from pockengine.errors import ArtifactError, DataError
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.training.networks import BATCH, CNN

Change = Callable[[dict[str, Any]], object]


@cache
def _program() -> bytes:
    recipe, backend, target = Recipe(update=[{"params": "fc.*"}], ema=0.9), backends.get("reference"), get("host")
    planned = plan_programs(Request(CNN.build(BATCH), recipe, target, backend=backend))
    return backend.build(describe(planned), target, None, lambda *told: None).members["program.json"]


def _step(content: dict[str, Any], op: str) -> dict[str, Any]:
    return next(step for step in content["programs"]["train"]["steps"] if step["op"] == op)


def _inner(content: dict[str, Any], op: str) -> dict[str, Any]:
    steps = content["programs"]["train"]["steps"]
    return next(node for step in steps for node in step.get("body", {"nodes": []})["nodes"] if node["op"] == op)


CHANGES: dict[str, tuple[Change, str]] = {
    "another format": (lambda c: c.update(format=2), "it has format 2"),
    "a block beyond memory": (lambda c: c["spaces"].update(arena=1 << 60), "this machine has"),
    "a block of negative size": (lambda c: c["spaces"].update(arena=-64), "this machine has"),
    "a block missing": (lambda c: c["spaces"].pop("param"), "lacks 'param'"),
    "a negative offset": (lambda c: _step(c, "region")["reads"][0].__setitem__(1, -64), "is not within"),
    "an odd offset": (lambda c: _step(c, "region")["writes"][0].__setitem__(1, 4), "is not within"),
    "an offset beyond": (lambda c: _step(c, "region")["writes"][0].__setitem__(1, 1 << 40), "is not within"),
    "an offset as text": (lambda c: _step(c, "region")["writes"][0].__setitem__(1, "0"), "a place is"),
    "an offset as truth": (lambda c: _step(c, "region")["writes"][0].__setitem__(1, True), "a place is"),
    "an unknown block": (lambda c: _step(c, "region")["reads"][0].__setitem__(0, "stack"), "a place is"),
    "a tensor beyond": (lambda c: c["params"][0].update(type="f32[1000000,1000000]"), "a tensor is"),
    "a negative size": (lambda c: c["params"][0].update(type="f32[-4]"), "a tensor is f32[-4]"),
    "no type": (lambda c: c["params"][0].update(type="f33[4]"), "not a program"),
    "many axes": (lambda c: c["params"][0].update(type=f"f32[{'1,' * 70}1]"), "a tensor is"),
    "an unknown op": (lambda c: _inner(c, "matmul").update(op="system"), "no operator is called 'system'"),
    "another op": (lambda c: _inner(c, "matmul").update(op="add"), ""),
    "no attributes": (lambda c: _inner(c, "matmul").update(attrs={}), "is no matmul"),
    "nested attributes": (lambda c: _inner(c, "matmul").update(attrs={"trans_a": {"a": 1}}), "an attribute is"),
    "an attribute of another kind": (lambda c: _inner(c, "conv2d").update(attrs={"stride": "ab"}), "is no conv2d"),
    "another result": (lambda c: _inner(c, "matmul").update(writes=["f32[1]"]), "states other types"),
    "a value that is not there": (lambda c: _inner(c, "matmul").update(reads=[0, 99]), "reads value 99"),
    "a value from the end": (lambda c: _inner(c, "matmul").update(reads=[0, -1]), "reads value -1"),
    "a body of other types": (lambda c: _step(c, "region")["body"].update(outputs=[]), "other types than its places"),
    "a region without a body": (lambda c: _step(c, "region").pop("body"), ""),
    "an average of nothing": (
        lambda c: next(s for s in c["states"] if s["average_of"] is not None).update(average_of=99),
        "average of no parameter",
    ),
    "a table that is not there": (
        lambda c: c["lookups"].append({"table": 99, "indices": ["input", 0], "type": "i64[1]", "rows": ["input", 0]}),
        "looks up rows of no table",
    ),
    "a state in the file": (lambda c: c["states"][0].update(place=["file", 0]), "a place is"),
    "an input in the file": (lambda c: c["inputs"][0].update(place=["file", 0]), "a place is"),
    "a loss of many": (
        lambda c: c["programs"]["train"]["outputs"]["loss"].__setitem__(2, "f32[3]"),
        "the output 'loss' of train is f32[3]",
    ),
    "losses of other samples": (
        lambda c: c["programs"]["eval"]["outputs"]["sample_loss"].__setitem__(2, "f32[1]"),
        "the output 'sample_loss' of eval is f32[1]",
    ),
    "a batch of none": (lambda c: c.update(batch=0), "not at least 1"),
    "a batch as text": (lambda c: c.update(batch="4"), "'batch' is no int"),
    "an unknown last batch": (lambda c: c.update(last_batch="round"), "its last_batch is 'round'"),
    "an unknown program": (
        lambda c: c["programs"].update(format_disk=c["programs"]["eval"]),
        "a program 'format_disk'",
    ),
    "steps that are no list": (lambda c: c["programs"]["train"].update(steps={}), "'steps' is no list"),
    "a step that is no object": (lambda c: c["programs"]["train"]["steps"].append(7), "lacks 'reads'"),
}


def test_the_program_itself_is_read() -> None:
    assert sorted(parse(_program()).scripts) == ["eval", "predict", "train"]


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_program_is_refused(name: str) -> None:
    change, part = CHANGES[name]
    content = json.loads(_program())
    change(content)
    with pytest.raises(ArtifactError) as caught:
        parse(json.dumps(content).encode())
    said = str(caught.value)
    assert part in said and "\n" not in said and len(said) < 500


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[]", b"7", b"{}", b"[" * 100_000, b'{"format": "1"}'])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(ArtifactError, match=r"program\.json"):
        parse(data)


def test_batches_of_another_shape_are_a_sentence(tmp_path: Path) -> None:
    """A manifest may say other inputs and outputs than the program has."""
    save_file(dict(CNN.build(BATCH).data), tmp_path / "params.safetensors")
    program = json.loads(_program())
    program["consts"] = []
    machine = Machine(parse(json.dumps(program).encode()), tmp_path / "params.safetensors", None)
    x = np.zeros(machine.model.inputs[0].type.shape, np.float32)
    rest: list[Any] = [None] * (len(machine.model.inputs) - 1)
    for batch in ([x, *rest, None], [x[:1], *rest]):
        with pytest.raises(DataError):
            machine.run("predict", batch)
    with pytest.raises(DataError, match="inputs, not 1"):
        machine.step([x])
    with pytest.raises(DataError, match="not of the shapes"):
        machine.predict([x, *rest], [np.zeros(1, np.float32)])
