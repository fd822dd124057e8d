"""The training steps that are counted, compiled for a device with the functions' names kept."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from safetensors.numpy import save_file

import pockengine as pock
from benchmarks.peers.torch_models import settled
from benchmarks.raspberry_pi.emulator import Block, executions
from benchmarks.workloads import FAMILIES, LEARNING_RATE, MOMENTUM, WORKLOADS, Family, Update, images, text
from pockengine.codegen.common.index_maps import contractions_of
from pockengine.codegen.common.region import anchor_of
from pockengine.codegen.native import toolchain
from pockengine.codegen.native.tables import emit_model, kernel_sources
from pockengine.compile import Planned
from pockengine.compile.build import describe
from pockengine.ir import Node, RegionKind
from pockengine.ops import get
from pockengine.ops.convolution import channels_of_group

Shape = tuple[int, int, int, int]
"""Batch, rows, columns and depth of a matrix product."""
BATCH = 1


@dataclass(frozen=True)
class Case:
    """One step: a model and what is trained of it, batch 1."""

    title: str
    family: Family
    update: Update


def _smaller(name: str, side: int) -> Family:
    family = FAMILIES[name]
    return replace(family, feed=partial(images, side=side, classes=1000), config={**family.config, "image_size": side})


_TRANSFORMER = replace(
    FAMILIES["distilbert"],
    feed=partial(text, length=64, vocabulary=1000, classes=2),
    config={"dim": 192, "hidden_dim": 768, "n_heads": 3, "n_layers": 4, "vocab_size": 1000, "num_labels": 2},
)
_FULL = WORKLOADS["mobilenetv2-b1-full"].update
_LAST_8 = WORKLOADS["mobilenetv2-b1-last8"].update

CASES = (
    Case("MobileNetV2 96, full", _smaller("mobilenetv2", 96), _FULL),
    Case("MobileNetV2 96, last 8 blocks", _smaller("mobilenetv2", 96), _LAST_8),
    Case("MobileNetV2 224, full", FAMILIES["mobilenetv2"], _FULL),
    Case("MobileNetV2 224, last 8 blocks", FAMILIES["mobilenetv2"], _LAST_8),
    Case("MCUNet-5FPS-like 128, full", FAMILIES["mcunet"], _FULL),
    Case("MCUNet-5FPS-like 128, sparse", FAMILIES["mcunet"], WORKLOADS["mcunet-b1-sparse"].update),
    Case("transformer, 4 layers of 192, 64 tokens, full", _TRANSFORMER, _FULL),
)


@dataclass(frozen=True)
class Step:
    """A compiled step.

    executed  how often each block of the program runs in one step
    flops     by the operators' own counts
    kinds     kernel -> "product", "depthwise", or the kind of region or operator
    products  the shapes of its matrix products and how often each occurs"""

    program: bytes
    executed: Mapping[Block, int]
    flops: int
    kinds: Mapping[str, str]
    products: Mapping[Shape, int]

    @property
    def product_flops(self) -> int:
        return sum(2 * math.prod(shape) * count for shape, count in self.products.items())


def measure(case: Case, target: str) -> Step:
    """Compile a step and count what it executes: two steps less one. Raises MissingTool."""
    artifact, planned = _compiled(case, target)
    objects = toolchain.compile_objects(kernel_sources(planned.programs.values()), planned.target)
    program = toolchain.link_executable(objects, emit_model(describe(planned)), planned.target, symbols=True)
    steps = planned.programs["train"].steps
    calls = [(step.node, call) for step in steps for call in step.lowered.calls]
    products = Counter(
        contraction.sizes()
        for step in steps
        if _kind(step.node) == "product"
        for contraction in contractions_of(anchor_of(step.node))
    )
    return Step(
        program,
        _executed(program, artifact, case),
        sum(call.flops for _, call in calls),
        {call.kernel.symbol: _kind(node) for node, call in calls},
        products,
    )


def _compiled(case: Case, target: str) -> tuple[pock.Artifact, Planned]:
    feed = case.family.feed(batch=BATCH)
    graph = pock.from_torch(settled(case.family), (torch.from_numpy(feed[case.family.input_name]),))
    recipe = pock.Recipe(
        loss=case.family.loss,
        optimizer={"name": "sgd", "lr": LEARNING_RATE, "momentum": MOMENTUM},
        update=list(case.update),
        batch=BATCH,
    )
    plans: list[Planned] = []
    artifact = pock.compile(graph, recipe, target, threads=1, inspect=lambda planned, _: plans.append(planned))
    return artifact, plans[0]


def _kind(node: Node) -> str:
    kind = str(node.attrs["kind"]) if node.body is not None else get(node.op).kind
    if kind != "contraction":
        return "depthwise" if kind == RegionKind.GRADIENTS else kind
    return "depthwise" if channels_of_group(anchor_of(node)) == 1 else "product"


def _executed(program: bytes, artifact: pock.Artifact, case: Case) -> Counter[Block]:
    with tempfile.TemporaryDirectory(prefix="pock-step-") as folder:
        model, data = Path(folder) / "model", Path(folder) / "data.safetensors"
        model.write_bytes(program)
        model.chmod(0o755)
        save_file(case.family.feed(batch=BATCH), data)
        weights = artifact.unpack()
        command = [str(model), "train", "--threads", "1", "--data", str(data)]
        for name in ("params", "consts"):
            if (file := weights / f"{name}.safetensors").exists():
                command += [f"--{name}", str(file)]
        once, twice = (executions([*command, "--steps", count]) for count in ("1", "2"))
        return twice - once
