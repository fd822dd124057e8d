"""Writes what all peers of a workload share: the weights, what is trained, and the model as ONNX. Runs in the project's
own environment.

    python -m benchmarks.peers.prepare WORKLOAD
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import pockengine as pock
from benchmarks.peers.case import Case
from benchmarks.peers.torch_models import build, logits_of, settled
from benchmarks.workloads import LEARNING_RATE, MOMENTUM
from pockengine.ir import Graph
from pockengine.recipe import Channels, matches, resolve


def model_of(case: Case) -> nn.Module:
    """The workload's model with the shared weights, which are written when they are not there yet."""
    write_weights(case)
    model = build(case.workload.model)
    model.load_state_dict(load_file(case.weights_file), assign=True)
    return model


def write_weights(case: Case) -> None:
    if not case.weights_file.exists():
        case.weights_file.parent.mkdir(parents=True, exist_ok=True)
        partial = case.weights_file.with_suffix(".partial")
        tensors = {name: tensor.contiguous() for name, tensor in settled(case.workload.model).state_dict().items()}
        save_file(tensors, partial)
        partial.rename(case.weights_file)


def graph_of(case: Case, batch: int | None = None) -> Graph:
    """The workload's model as we import it."""
    feed = case.workload.model.feed(batch=batch or case.workload.batch)
    return pock.from_torch(model_of(case), (torch.from_numpy(feed[case.workload.model.input_name]),))


def recipe_of(case: Case, batch: int | None = None) -> pock.Recipe:
    return pock.Recipe(
        loss=case.workload.model.loss,
        optimizer={"name": "sgd", "lr": LEARNING_RATE, "momentum": MOMENTUM, "state": case.workload.state},
        update=list(case.workload.update),
        batch=batch or case.workload.batch,
        frozen=case.workload.frozen,
    )


def prepare(case: Case) -> None:
    """Write the case's files unless they are there."""
    if case.trained_file.exists():
        return
    case.folder.mkdir(parents=True, exist_ok=True)
    if case.workload.alone:  # ONNX Runtime's training cannot take a model above 2 GB
        write_weights(case)
        trained = _trained_by_name(case)
    else:
        trained = _trained(case)
        _export(case)
    case.trained_file.write_text(json.dumps(trained, indent=1))


def _trained(case: Case) -> dict[str, Any]:
    scheme = resolve(recipe_of(case), graph_of(case))
    found: dict[str, Any] = {}
    for name in scheme.trained():
        update = scheme.of(name)
        found[name] = {"axis": update.axis, "indices": update.indices} if isinstance(update, Channels) else None
    return found


def _trained_by_name(case: Case) -> dict[str, Any]:
    """The same from the names alone, for rules that are only patterns: without the memory that exporting takes."""
    with torch.device("meta"):
        names = [name for name, _ in build(case.workload.model).named_parameters()]
    rules = case.workload.update
    assert all(rule.keys() == {"params"} for rule in rules)
    return {name: None for name in names if any(matches(rule["params"], name) for rule in rules)}


class _Logits(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return logits_of(self.model, x)


def _export(case: Case) -> None:
    """The model as ONNX Runtime 1.19 differentiates it: from the exporter of its time, parameters unfolded."""
    model = model_of(case)
    config = getattr(model, "config", None)
    if config is not None:
        config._attn_implementation = "eager"
    feed = case.workload.feed()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Logits(model), (torch.from_numpy(feed[case.workload.model.input_name]),), str(case.onnx_file),
            dynamo=False, do_constant_folding=False, training=torch.onnx.TrainingMode.PRESERVE, opset_version=18,
            input_names=["input"], output_names=["logits"],
        )  # fmt: skip


if __name__ == "__main__":
    prepare(Case.named(sys.argv[1]))
