"""`pock check`: what it says about models, recipes and devices, and how long it takes to say it."""

from __future__ import annotations

import cProfile
import json
import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import pockengine as pock
from pockengine.check import check, check_file, estimate
from pockengine.compile import Request, plan_programs
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.check import llama
from tests.compiler.models import zoo
from tests.compiler.training.networks import CNN

PATIENCE = 10.0
"""Times that a limit of processor time may be exceeded on a slow machine, or where other tests run beside: only work of
another order is to be found here."""


def pock_check(*arguments: object) -> tuple[dict, float]:
    """The report of the command, and the processor time of the busier of its two processes in seconds."""
    program = (
        "import resource, sys; from pockengine.cli import main\n"
        "import atexit\n"
        "who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)\n"
        "atexit.register(lambda: print(max(sum(resource.getrusage(one)[:2]) for one in who), file=sys.stderr))\n"
        "main()"
    )
    command = [sys.executable, "-c", program, "check", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), float(done.stderr.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def mobilenet(tmp_path_factory):
    """MobileNetV2 at 224 x 224 as a file."""
    import torch
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    module = MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=1000)).eval()
    path = tmp_path_factory.mktemp("check") / "mobilenet.onnx"
    torch.onnx.export(
        module, (torch.zeros(1, 3, 224, 224),), path, dynamo=True, optimize=False, opset_version=23, verbose=False
    )
    return path


def test_mobilenet_in_two_seconds(mobilenet, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("loss: cross_entropy\noptimizer: adamw\nupdate: {last_blocks: 8}\n")
    report, seconds = pock_check(mobilenet, "--recipe", recipe)
    assert report["supported"]
    assert set(report["recipes"]) == {"full", "head", "bias", "recipe"}
    peaks = {name: found["predicted_peak_bytes"] for name, found in report["recipes"].items()}
    assert max(peaks["head"], peaks["bias"]) < peaks["recipe"] < peaks["full"]
    layers = report["layers"]
    assert sum(layer["share"] for layer in layers) == pytest.approx(1)
    assert sum(layer["saved_share"] for layer in layers) == pytest.approx(1)
    assert sum(layer["param_count"] for layer in layers) == 3_504_872 + 2 * 17_056  # with the running statistics
    assert all(found["targets"]["raspberry-pi-4"]["fits"] for found in report["recipes"].values())
    assert seconds < 2 * PATIENCE


@pytest.mark.large
def test_seven_billion_parameters_without_their_weights(tmp_path):
    parameters = llama.write(tmp_path / "llama.onnx", 32, 4096, 11008, 32, 32000, 512)
    report, seconds = pock_check(tmp_path / "llama.onnx")
    assert report["missing_weights"]
    assert report["supported"]
    assert parameters <= report["param_count"] <= parameters + 64  # and the rotary frequencies
    full, head = report["recipes"]["full"], report["recipes"]["head"]
    assert full["state_bytes"] >= 2 * 4 * parameters  # AdamW: two numbers each
    assert head["trained_parameters"] == 32000 * 4096
    assert "no parameter" in report["recipes"]["bias"]["error"]
    assert not full["targets"]["jetson-orin-nano"]["fits"]
    assert seconds < 20


def test_weights_that_are_needed_and_missing(tmp_path):
    llama.write(tmp_path / "llama.onnx", 1, 32, 64, 2, 64, 8)
    with pytest.raises(pock.PockError, match=r"missing: there is no file '.*llama.onnx.data'"):
        pock.load(tmp_path / "llama.onnx")


def test_estimate_of_the_recipe_is_the_plan_of_the_build():
    graph, recipe = zoo.graph("bert"), Recipe(update="bias", optimizer="adamw")
    planned = plan_programs(Request(graph, recipe, get("host")))
    found = estimate(graph, recipe, get("host"))
    assert found.summary["arena_bytes"] == planned.arena_bytes
    assert found.summary["nodes_backward_dense"] == planned.counts.backward_dense


def test_saved_activations_are_those_alive_between_forward_and_backward():
    graph = zoo.graph("resnet18")
    full, head = (check(graph, Recipe(update=update)) for update in ("full", "head"))
    saved = {layer.name: layer.saved_bytes for layer in full.layers}
    stem = next(layer for layer in full.layers if layer.name.endswith("embedder.embedder.normalization"))
    assert saved[stem.name] >= 4 * zoo.BATCH * 32 * 16 * 16 // 32  # at least one bit of each relu's output
    assert sum(layer.saved_bytes for layer in head.layers[:-1]) <= 4 * zoo.BATCH * 256
    planned = plan_programs(Request(graph, Recipe(update="full"), get("host")))
    assert sum(saved.values()) <= planned.programs["train"].plan.arena_bytes


def test_saved_activations_are_seen_where_the_generator_advances_first():
    """Its update depends on nothing, and may run before all else."""
    plain, drawn = (
        sum(estimate(CNN.build(4), Recipe(augment=augment), get("raspberry-pi-4")).saved_bytes.values())
        for augment in ((), "flip")
    )
    assert drawn >= plain > 4 * 4 * 6 * 6 * 8


def test_a_device_that_is_too_small():
    report = check(zoo.graph("bert"), Recipe(update="full", batch=zoo.BATCH))
    assert report.estimate is not None
    fit = {device.target: device for device in report.estimate.devices}
    assert fit["raspberry-pi-zero-2"].fits
    small = estimate(zoo.graph("bert"), Recipe(update="full"), get("raspberry-pi-zero-2")).devices
    assert [device.fits for device in small] == [device.fits for device in report.estimate.devices]


def test_operator_without_gradient(tmp_path):
    """Rounding is fine in the frozen part, and named where a gradient should pass."""
    nodes = [
        helper.make_node("MatMul", ["x", "early.weight"], ["a"]),
        helper.make_node("BitCast", ["a"], ["i"], name="bits", to=TensorProto.INT32),
        helper.make_node("BitCast", ["i"], ["b"], name="back", to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["b", "late.weight"], ["y"]),
    ]
    weight = np.eye(4, dtype=np.float32)
    graph = helper.make_graph(
        nodes,
        "bits",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(weight, name) for name in ("early.weight", "late.weight")],
    )
    path = tmp_path / "bits.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)]).SerializeToString())
    assert check_file(path, Recipe("mse", update=[{"params": "late.weight"}])).supported
    report = check_file(path, Recipe("mse", update=[{"params": "early.weight"}]))
    assert not report.supported
    (node,) = report.unsupported
    assert node.node in ("bits", "back")
    assert "train only parameters that lie after it" in node.advice


def test_more_than_two_gigabytes_import_without_being_read(tmp_path):
    """A sparse file of 2.4 GB of weights costs a few per cent of that to import."""
    rows, path = 600_000_000 // 1024, tmp_path / "large.onnx"
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table.weight", "ids"], ["y"])],
        "large",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 1024])],
    )
    tensor = graph.initializer.add(name="table.weight", data_type=TensorProto.FLOAT, dims=[rows, 1024])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="large.data")
    with (tmp_path / "large.data").open("wb") as file:
        file.truncate(rows * 4096)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]).SerializeToString())
    program = (
        "import pockengine as pock\n"
        "from benchmarks.peers.worker import status_bytes\n"
        "before = status_bytes('VmHWM')\n"
        f"graph = pock.load({str(path)!r})\n"
        "assert graph.data['table.weight'].nbytes > 2**31\n"
        "print(status_bytes('VmHWM') - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 0.03 * rows * 4096


def test_the_work_of_planning_is_linear_in_the_depth():
    """Twice as deep a model takes about twice as many calls; `benchmarks.scaling` goes up to 10,000 nodes."""

    def calls(blocks: int) -> int:
        nodes, values = [], {}
        for index in range(blocks):
            before = f"h{index}"
            values[f"layer.{index}.weight"] = np.eye(8, dtype=np.float32)
            nodes += [
                helper.make_node("MatMul", [before, f"layer.{index}.weight"], [f"a{index}"]),
                helper.make_node("Relu", [f"a{index}"], [f"b{index}"]),
                helper.make_node("Add", [f"b{index}", before], [f"h{index + 1}"]),
            ]
        graph = helper.make_graph(
            nodes,
            "deep",
            [helper.make_tensor_value_info("h0", TensorProto.FLOAT, [2, 8])],
            [helper.make_tensor_value_info(f"h{blocks}", TensorProto.FLOAT, [2, 8])],
            [numpy_helper.from_array(array, name) for name, array in values.items()],
        )
        from pockengine.frontends.onnx.file import from_proto
        from pockengine.frontends.onnx.importer import import_model

        imported = import_model(from_proto(helper.make_model(graph)), "deep")
        profile = cProfile.Profile()
        profile.runcall(plan_programs, Request(imported, Recipe("mse", "sgd"), get("host")))
        return sum(entry.callcount for entry in profile.getstats())

    calls(10)  # what is looked up once
    short, long = calls(100), calls(200)
    assert long < 2.5 * short


def test_the_time_of_a_step_is_that_of_all_its_micro_batches():
    graph, target = CNN.build(2), get("raspberry-pi-4")
    one, four = (estimate(graph, Recipe(accumulate=count), target).step_ms for count in (1, 4))
    assert 3 * one < four < 4.5 * one
