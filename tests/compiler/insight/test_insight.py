"""Insight: profile, trace and explanation of a small convolutional network, through the command line."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from safetensors.numpy import save_file

from pockengine.artifact import Artifact
from pockengine.codegen.c.measure.peak import measure_peak
from pockengine.compile import Request, plan_programs
from pockengine.errors import MemoryBudgetError
from pockengine.frontends import load
from pockengine.insight import explain
from pockengine.ir import PHASES
from pockengine.ir.regions import RegionKind
from pockengine.passes import SPARING, unfused_neighbours
from pockengine.passes.fuse import Group
from pockengine.passes.unfused import misfit
from pockengine.plan import aligned
from pockengine.plan.pipeline import Pipeline
from pockengine.recipe import Recipe
from pockengine.targets import ALIGNMENT, get
from pockengine.tune import Tuning
from tests.compiler.cli.command import pock
from tests.compiler.frontends.onnx_models import model, save

RECIPE = """
loss: cross_entropy
optimizer: {name: sgd, lr: 0.05, momentum: 0.9}
batch: 4
update: [{params: "dw.*"}, {params: "pw.*"}, {params: "fc.*"}]
"""
NODES: tuple[tuple[str, list[str], str, dict[str, Any]], ...] = (
    ("Conv", ["x", "conv1.weight"], "conv1", {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ("BatchNormalization", ["conv1", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"], "bn", {}),
    ("Relu", ["bn"], "relu1", {}),
    ("Conv", ["relu1", "dw.weight"], "dw", {"pads": [1, 1, 1, 1], "group": 16}),
    ("Relu", ["dw"], "relu2", {}),
    ("Conv", ["relu2", "pw.weight"], "pw", {}),
    ("GlobalAveragePool", ["pw"], "gap", {}),
    ("Flatten", ["gap"], "flat", {}),
    ("Gemm", ["flat", "fc.weight", "fc.bias"], "logits", {"transB": 1}),
)
SHAPES = {
    "conv1.weight": (16, 3, 3, 3),
    "bn.weight": (16,), "bn.bias": (16,), "bn.running_mean": (16,), "bn.running_var": (16,),
    "dw.weight": (16, 1, 3, 3), "pw.weight": (32, 16, 1, 1), "fc.weight": (10, 32), "fc.bias": (10,),
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A folder with a model, a recipe and a dataset."""
    folder, rng = tmp_path_factory.mktemp("insight"), np.random.default_rng(5)
    arrays = {name: (rng.normal(size=shape) / 4).astype(np.float32) for name, shape in SHAPES.items()}
    arrays["bn.running_var"] = np.ones(16, np.float32)
    nodes = [helper.make_node(op, inputs, [name], name=name, **attrs) for op, inputs, name, attrs in NODES]
    save(model(nodes, {"x": (np.float32, ["batch", 3, 32, 32])}, ["logits"], arrays), folder / "net.onnx")
    (folder / "recipe.yaml").write_text(RECIPE)
    images = rng.normal(size=(8, 3, 32, 32)).astype(np.float32)
    save_file({"x": images, "labels": rng.integers(0, 10, 8)}, folder / "data.safetensors")
    return folder


@pytest.fixture
def run(files, capsys, monkeypatch) -> Callable[..., tuple[int, str, str]]:
    """Runs `pock ARGUMENTS` in the folder: exit code, stdout and stderr."""
    monkeypatch.chdir(files)
    return partial(pock, capsys=capsys, monkeypatch=monkeypatch)


@pytest.fixture
def compiled(run, files) -> dict:
    """What `pock compile --explain --json` prints."""
    code, out, err = run("compile", "net.onnx", "--recipe", "recipe.yaml", "-o", "net.pock", "--explain", "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_a_profile_adds_up_to_the_step(run, files, compiled):
    code, out, err = run("profile", "net.pock", "--data", "data.safetensors", "--steps", 30, "--threads", 1, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["program"], found["threads"], found["steps"]) == ("train", 1, 30)
    kernels = found["kernels"]
    nodes = Artifact.open(files / "net.pock").manifest.programs["train"]["nodes"]
    assert {row["node"] for row in kernels} == {node["index"] for node in nodes}
    assert [row["ms"] for row in kernels] == sorted((row["ms"] for row in kernels), reverse=True)
    assert sum(row["ms"] for row in kernels) == pytest.approx(found["kernels_ms"])
    assert sum(row["share"] for row in kernels) == pytest.approx(1)
    assert [part["phase"] for part in found["phases"]] == [*PHASES]
    for part in found["phases"]:
        for key in ("ms", "share"):
            assert part[key] == pytest.approx(sum(row[key] for row in kernels if row["phase"] == part["phase"]))
    # Medians of the kernels against that of the steps: other work on the machine moves each of them.
    assert 0.2 * found["step_ms"] < found["kernels_ms"] < 5 * found["step_ms"]
    assert sum(row["flops"] for row in kernels) == pytest.approx(sum(node["flops"] for node in nodes))
    (forward,) = [row for row in kernels if (row["layer"], row["phase"]) == ("pw", "forward")]
    assert forward["op"] == "conv2d" and forward["flops"] >= 2 * 4 * 16 * 16 * 16 * 32
    rates = {level["level"]: level["rate"] for level in found["peak"]["memory"]}
    assert found["peak"]["flops"] > 1e9 and min(rates.values()) > 1e8
    expected = forward["flops"] / forward["ms"] * 1e3 / found["peak"]["flops"]
    assert forward["of_peak"] == pytest.approx(expected)
    for row in kernels:
        assert sum(row["bytes_from"].values()) == pytest.approx(row["bytes"])
        least = {level: nbytes / rates[level] for level, nbytes in row["bytes_from"].items()}
        assert row["level"] == max(least, key=least.__getitem__)
        assert row["of_bandwidth"] == pytest.approx(1e3 * sum(least.values()) / row["ms"])


def test_the_trace_holds_one_step(run, files, compiled):
    code, out, _ = run("profile", "net.pock", "--steps", 5, "--trace", "trace.json")
    assert code == 0 and "trace: trace.json" in out and "one step of train" in out
    trace = json.loads((files / "trace.json").read_text())
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    names = {event["name"]: event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"}
    assert names == {"process_name": "net", "thread_name": "train"}
    assert len({event["tid"] for event in events}) == 1
    assert {"conv1", "dw", "pw"} <= {event["name"] for event in events}
    assert all(event["dur"] >= 0 for event in events) and sum(event["dur"] for event in events) > 0
    for before, after in itertools.pairwise(events):
        assert after["ts"] == pytest.approx(before["ts"] + before["dur"])
    assert {event["cat"] for event in events} == {"forward", "backward", "update"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["net.pock", "--data", "none.safetensors"], "none.safetensors"),
        (["net.pock", "--trace", "nowhere/t.json"], "folder 'nowhere'"),
        (["none.pock"], "no artifact"),
    ],
)
def test_what_cannot_be_profiled_is_one_sentence(run, compiled, arguments, sentence):
    code, out, err = run("profile", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err and err.count("\n") == 1


def test_the_peak_is_that_of_the_micro_kernel():
    one, two = measure_peak(get("host"), 1), measure_peak(get("host"), 2)
    for peak in (one, two):
        assert 1e9 < peak.flops < 1e13
        rates = [level.rate for level in peak.memory]
        assert rates == sorted(rates, reverse=True) and 1e8 < rates[-1] <= rates[0] < 1e13
        assert peak.memory[-1].level == "DRAM" and peak.memory[-1].nbytes is None
    assert two.threads == 2


def test_a_profile_for_a_person(run, compiled):
    code, out, _ = run("profile", "net.pock", "--steps", 5, "--threads", 1)
    assert code == 0
    titles, forward, first, *_ = out.splitlines()
    assert re.fullmatch(r"forward +[\d.]+ +[\d.]+%", forward.strip())
    assert [line.split()[0] for line in out.splitlines()[1:] if re.match(r"\w", line)][:3] == [*PHASES]
    for text in ("of peak", "from", "of bandwidth"):
        assert text in titles
    assert re.search(r" (L\d|DRAM) +\d+%$", first.rstrip())
    assert re.search(r"this machine at best +[\d.]+ Gflop/s; L1 \d+, .*DRAM \d+ GB/s", out)
    assert re.search(r"data +[\d.]+ .?B from L1 \d+%, .*DRAM \d+%: [\d.]+ ms at these rates", out)


def test_explain_says_what_the_graph_has(compiled):
    explained = compiled["explain"]
    regions = {(row["layer"], row["phase"], row["kind"]): row for row in explained["regions"]}
    first = regions["conv1", "forward", "contraction"]
    assert first["operators"][0] == "conv2d" and len(first["operators"]) >= 3  # with its norm and activation
    update = next(row for row in explained["regions"] if "pw.weight" in row["updates"])
    assert update["operators"][0] == "conv2d_dw" and update["phase"] == "update"
    trained = ("dw.weight", "pw.weight", "fc.weight", "fc.bias")
    updated = [name for row in explained["regions"] for name in row["updates"]]
    assert sorted(updated) == sorted([*trained, *(f"{name}.momentum" for name in trained)])
    over = {(row["layer"], row["space"]): row for row in explained["in_place"]}
    assert over["pw", "param"]["over"] == "pw.weight"
    assert {"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"} <= set(explained["folded"]["parameters"])
    assert explained["folded"]["constants"] > 0
    assert [row["nbytes"] for row in explained["transposes"]] == [2 * 4 * 4 * 3 * 32 * 32]  # the images alone
    assert explained["recomputed"]["share_of_time"] == 0.0
    assert not [row for row in explained["recomputed"]["values"] if "would not fit" in row["why"]]
    reasons = {(row["first"], row["second"]): row["reason"] for row in explained["not_fused"]}
    assert "tile by tile" in reasons["pw", "gap"]


def test_explain_names_what_is_alive_at_the_peak(compiled):
    peak = compiled["explain"]["peak"]
    assert peak["live_bytes"] == sum(row["nbytes"] for row in peak["alive"])
    assert (
        sum(aligned(row["nbytes"], ALIGNMENT) for row in peak["alive"])
        == compiled["lower_bound_bytes"]
        <= peak["arena_bytes"]
    )
    assert all(row["first"] <= peak["index"] <= row["last"] for row in peak["alive"])
    assert [row["nbytes"] for row in peak["alive"]] == sorted((row["nbytes"] for row in peak["alive"]), reverse=True)


def test_explain_has_the_schedule_of_each_contraction(compiled):
    rows = compiled["explain"]["contractions"]
    families = [(row["layer"], row["family"]) for row in rows]
    assert (
        ("dw", "depthwise_conv2d") in families and ("pw", "conv2d_dw") in families and ("pw", "conv2d_dx") in families
    )
    for row in rows:
        assert row["chosen_by"] == "model" and row["flops"] > 0
        share = row["expected_share_of_peak"]
        assert (share is None) == row["family"].startswith("depthwise") and (share is None or 0 < share <= 1)


def test_explain_for_a_person(run, files):
    code, out, _ = run("compile", "net.onnx", "--recipe", "recipe.yaml", "-o", "net.pock", "--explain")
    assert code == 0
    for text in ("Contractions", "Stayed apart", "Written in place", "Folded", "Computed twice", "Most memory at"):
        assert text in out
    assert "  bn.running_var" in out and "conv2d_dw" in out


def test_explain_says_what_is_computed_twice(files):
    graph, recipe = load(files / "net.onnx", {}, 4), Recipe.load(files / "recipe.yaml")
    recipe = recipe.with_(update="full")
    with pytest.raises(MemoryBudgetError) as refused:
        plan_programs(Request(graph, recipe, get("host"), 1, memory=1))
    told = re.search(r"\((\d+) bytes\)", str(refused.value))
    assert told is not None
    least = int(told[1])
    planned = plan_programs(Request(graph, recipe, get("host"), 1, memory=least))
    found = explain(planned, Tuning())["recomputed"]
    again = [row for row in found["values"] if "would not fit" in row["why"]]
    assert len(again) >= planned.recomputed.nodes > 0
    assert found["share_of_time"] == planned.recomputed.share


def test_explain_says_what_arithmetic_makes_again(tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="fc"),
        helper.make_node("MatMul", ["h", "u"], ["g"], name="gated"),  # which keeps h in any case
        helper.make_node("Sigmoid", ["h"], ["s"], name="gate"),
        helper.make_node("Mul", ["s", "g"], ["a"], name="product"),
        helper.make_node("MatMul", ["a", "v"], ["logits"], name="head"),
    ]
    shapes = {"w": (8, 16), "u": (16, 16), "v": (16, 4)}
    arrays = {name: np.full(shape, 0.1, np.float32) for name, shape in shapes.items()}
    save(model(nodes, {"x": (np.float32, [4, 8])}, ["logits"], arrays), tmp_path / "gate.onnx")
    recipe = Recipe(loss="cross_entropy", optimizer="sgd", update="full", batch=4)
    graph = load(tmp_path / "gate.onnx", {}, 4)
    planned = plan_programs(Request(graph, recipe, get("host"), 1, pipeline=Pipeline(shaping=SPARING)))
    found = explain(planned, Tuning())["recomputed"]
    assert found["values"] and all("elementwise arithmetic" in row["why"] for row in found["values"])


@pytest.mark.parametrize(
    "first, second, sentence",
    [
        (
            Group(0, RegionKind.ELEMENTWISE, (8, 32)),
            Group(1, RegionKind.ELEMENTWISE, (8, 16)),
            "they walk over different shapes, [8, 32] and [8, 16]: axis 1 is 32 and 16",
        ),
        (
            Group(0, RegionKind.COLUMN, (8, 4, 32), (0, 1)),
            Group(1, RegionKind.COLUMN, (8, 4, 32), (0,)),
            "of [8, 4, 32] one reduces axes 0, 1 and the other axis 0",
        ),
        (
            Group(0, RegionKind.COLUMN, (8, 4, 32), (0, 1)),
            Group(1, RegionKind.ELEMENTWISE, (8, 4, 32)),
            "the sum over axes 0, 1 of [8, 4, 32] comes first, and the other one walks over all of it again",
        ),
    ],
)
def test_what_keeps_two_regions_apart_is_what_differs(first, second, sentence):
    assert misfit(first, second) == sentence


def test_near_misses_are_few(files):
    recipe = Recipe.load(files / "recipe.yaml")
    graph = plan_programs(Request(load(files / "net.onnx", {}, 4), recipe, get("host"), 1)).programs["train"].graph
    found = unfused_neighbours(graph)
    assert 0 < len(found) < len(graph.nodes)
    assert all(missed.producer in graph.nodes and missed.consumer in graph.nodes for missed in found)
