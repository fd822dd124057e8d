"""A frozen 3 x 3 convolution computed by minimal filtering, forward and input gradient, within whole steps."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from pockengine.compile import Request, compile, plan_programs
from pockengine.ir import Builder, DType, Graph, TensorType
from pockengine.ops import Emitter
from pockengine.plan.pipeline import PIPELINE, Pipeline
from pockengine.recipe import Recipe
from pockengine.targets import get

BATCH, SIDE = 2, 27
SHAPES = {"point.weight": (64, 16, 1, 1), "taps.weight": (64, 64, 3, 3), "fc.weight": (4, 64)}
RECIPE = Recipe(optimizer={"name": "sgd", "lr": 0.1}, update=[{"params": "point.*"}, {"params": "fc.*"}])
CONV = {"stride": (1, 1), "dilation": (1, 1), "groups": 1, "layout": "NCHW"}


def _weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: (0.1 * rng.standard_normal(shape)).astype(np.float32) for name, shape in SHAPES.items()}


def _graph() -> Graph:
    builder = Builder("frozen")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (BATCH, 16, SIDE, SIDE)))
    p = {name: builder.param(name, TensorType(DType.F32, array.shape), array) for name, array in _weights().items()}
    h = e.op("tanh", e.op("conv2d", x, p["point.weight"], pad=(0, 0, 0, 0), **CONV))
    h = e.op("tanh", e.op("conv2d", h, p["taps.weight"], pad=(1, 1, 1, 1), **CONV))
    pooled = e.reshape(e.mean(h, (2, 3)), (BATCH, 64))
    builder.outputs = {"logits": e.matmul(pooled, e.transpose(p["fc.weight"], (1, 0)))}
    return builder.finish()


def _filtered(pipeline: Pipeline = PIPELINE) -> int:
    """Products by minimal filtering in the training step."""
    planned = plan_programs(Request(_graph(), RECIPE, get("host"), 2, pipeline=pipeline))
    calls = [call for step in planned.programs["train"].steps for call in step.lowered.calls]
    return sum(call.kernel.symbol.startswith("k_winograd_") and call.flops > 0 for call in calls)


def test_forward_and_gradient_can_be_switched_off() -> None:
    assert _filtered() == 2
    assert _filtered(PIPELINE.without("allow_winograd")) == 0


def test_steps_are_pytorchs() -> None:
    session = compile(_graph(), RECIPE, "host", 2).load()
    rng = np.random.default_rng(7)
    batch = {"x": rng.standard_normal((BATCH, 16, SIDE, SIDE)).astype(np.float32), "labels": np.array([1, 3])}
    p = {name: torch.from_numpy(array) for name, array in _weights().items()}
    trained = [p[name].requires_grad_() for name in ("point.weight", "fc.weight")]
    torch.set_num_threads(1)
    for _ in range(3):
        h = torch.tanh(F.conv2d(torch.from_numpy(batch["x"]), p["point.weight"]))
        h = torch.tanh(F.conv2d(h, p["taps.weight"], padding=1))
        loss = F.cross_entropy(F.linear(h.mean((2, 3)), p["fc.weight"]), torch.from_numpy(batch["labels"]))
        loss.backward()
        assert abs(session.step(batch) - loss.item()) < 1e-5 * abs(loss.item())
        with torch.no_grad():
            for weight in trained:
                assert weight.grad is not None
                weight -= 0.1 * weight.grad
                weight.grad = None
    for name, array in session.state().items():
        if name in p:
            np.testing.assert_allclose(array, p[name].detach().numpy(), rtol=1e-4, atol=1e-6)
