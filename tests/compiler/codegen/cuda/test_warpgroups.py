"""Training steps whose attention is multiplied by Hopper's warpgroups, through the host program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pockengine import from_torch
from pockengine.artifact import Artifact
from pockengine.codegen.gpu.launches import calls_of
from pockengine.compile import compile
from pockengine.compile.planned import Planned
from pockengine.ir import Array
from pockengine.recipe import Recipe
from tests.compiler.codegen.cuda.driver import make_driver, needs_compiler
from tests.compiler.codegen.cuda.test_shared import hopper
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.codegen.test_attention import bert, llama

pytestmark = needs_compiler
TOKENS = np.random.default_rng(0).integers(0, 50, (2, 80))
MODELS = {
    "llama": (llama(64), "causal_lm", "*.self_attn.*", TOKENS),
    "bert": (bert(80), "cross_entropy", "bert.encoder.layer.0.attention.*", np.array([0, 2])),
}
"""A model, its loss, what is trained, and labels."""


def _losses(artifact: Artifact, feed: dict[str, Array]) -> list[float]:
    with artifact.load() as session:
        return [session.step(feed) for _ in range(3)]


@pytest.mark.parametrize("model", MODELS)
def test_steps_are_those_of_emulated_kernels(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, loss, trained, labels = MODELS[model]
    graph, planned = from_torch(module, (torch.from_numpy(TOKENS),)), list[Planned]()
    optimizer = {"name": "sgd", "lr": 0.05}
    recipe = Recipe(loss=loss, optimizer=optimizer, update=[{"params": trained}], batch=2)
    artifact = compile(graph, recipe, hopper(), 2, inspect=lambda made, _: planned.append(made))
    kernels = {call.kernel.symbol for call in calls_of(planned[0].programs) if "WGMMA_HELD" in call.kernel.source}
    assert {name.split("_bf16_")[0] for name in kernels} == {"k_attention", "k_attention_dq", "k_attention_dkv"}
    monkeypatch.setenv("LD_LIBRARY_PATH", str(make_driver(planned[0].programs, tmp_path)))
    monkeypatch.setenv("FAKE_CAPABILITY", "90")
    feed = {**dict(zip((value.name for value in graph.inputs), (TOKENS,), strict=True)), "labels": labels}
    emulated = compile(graph, recipe, hopper(), 2, backend="emulated")
    assert apart(_losses, artifact, feed) == _losses(emulated, feed)
