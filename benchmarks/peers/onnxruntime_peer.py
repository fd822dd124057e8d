"""ONNX Runtime's training for devices. Its SGD has no momentum, so it does a little less than the others."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer

from benchmarks.peers.case import Case
from benchmarks.peers.training import Training
from benchmarks.workloads import LEARNING_RATE

_PREFIX = "model."
"""The exported module wraps the model."""


def build(case: Case, variant: str, threads: int) -> Training:
    del variant
    if case.workload.alone:
        raise ValueError("a model that it trains must fit into 2 GiB with its weights")
    model = onnx.load(str(case.onnx_file))
    _differentiable_norms(model.graph)
    parameters = {tensor.name: math.prod(tensor.dims) for tensor in model.graph.initializer}
    trained = [_PREFIX + name for name in case.trained]
    if missing := set(trained) - set(parameters):
        raise ValueError(f"the exported model lacks the parameters {sorted(missing)[:3]}")
    if any(case.trained.values()):
        raise ValueError("it cannot train some channels of a weight")
    frozen = [name for name in parameters if name not in trained]
    with tempfile.TemporaryDirectory(prefix="ort-training-") as folder:
        artifacts.generate_artifacts(
            model, requires_grad=trained, frozen_params=frozen, loss=artifacts.LossType.CrossEntropyLoss,
            optimizer=artifacts.OptimType.SGD, artifact_directory=folder,
        )  # fmt: skip
        del model
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        state = CheckpointState.load_checkpoint(str(Path(folder) / "checkpoint"))
        module = Module(
            str(Path(folder) / "training_model.onnx"), state, str(Path(folder) / "eval_model.onnx"), "cpu", options
        )
        optimizer = Optimizer(str(Path(folder) / "optimizer_model.onnx"), module)
    optimizer.set_learning_rate(LEARNING_RATE)
    module.train()
    feed = case.feed()
    inputs = (np.asarray(feed[case.workload.model.input_name], order="C"), feed["labels"])

    def step() -> float:
        loss = module(*inputs)
        optimizer.step()
        module.lazy_reset_grad()
        return float(loss)

    return Training(step, sum(parameters[name] for name in trained))


def _differentiable_norms(graph: onnx.GraphProto) -> None:
    """Layer norms with the optional outputs that their gradient reads; frozen batch norms as a product and a sum, since
    ONNX Runtime has no gradient of the operator in evaluation mode.

    BatchNormalization(x, gamma, beta, mean, variance)
        ->   x * s + (beta - mean * s), s = gamma / sqrt(variance + epsilon)
    """
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type == "LayerNormalization":
            node.output.extend([f"{node.output[0]}.mean", f"{node.output[0]}.inverse_deviation"])
        if node.op_type != "BatchNormalization":
            nodes.append(node)
            continue
        x, gamma, beta, mean, variance = node.input
        name = node.output[0]
        epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
        inverse = 1 / np.sqrt(constants[variance] + epsilon)
        given = {f"{name}.inverse": inverse, f"{name}.centre": constants[mean] * inverse}
        graph.initializer.extend(numpy_helper.from_array(a.astype(np.float32), n) for n, a in given.items())
        if f"{_PREFIX}channels" not in constants:
            constants[f"{_PREFIX}channels"] = np.array([1, -1, 1, 1])
            graph.initializer.append(numpy_helper.from_array(constants[f"{_PREFIX}channels"], f"{_PREFIX}channels"))
        nodes += [
            helper.make_node("Mul", [gamma, f"{name}.inverse"], [f"{name}.s"]),
            helper.make_node("Reshape", [f"{name}.s", f"{_PREFIX}channels"], [f"{name}.scale"]),
            helper.make_node("Mul", [gamma, f"{name}.centre"], [f"{name}.moved"]),
            helper.make_node("Sub", [beta, f"{name}.moved"], [f"{name}.b"]),
            helper.make_node("Reshape", [f"{name}.b", f"{_PREFIX}channels"], [f"{name}.shift"]),
            helper.make_node("Mul", [x, f"{name}.scale"], [f"{name}.scaled"]),
            helper.make_node("Add", [f"{name}.scaled", f"{name}.shift"], [name]),
        ]
    del graph.node[:]
    graph.node.extend(nodes)
