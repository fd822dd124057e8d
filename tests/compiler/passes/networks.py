"""Small networks written in the IR, with batch norm, residuals, depthwise and grouped convolution: what passes are
tested on."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from pockengine.ir import Builder, DType, Graph, TensorType, Value
from pockengine.ops import Emitter
from pockengine.ops.resample import DEFAULTS
from pockengine.passes import ALGEBRA, SHAPING, Context, Pass, optimise


class Net:
    """A model under construction; random parameters from a seed."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.builder = Builder(name)
        self.e = Emitter(self.builder)
        self.rng = np.random.default_rng(seed)

    def param(self, name: str, *shape: int, positive: bool = False) -> Value:
        data = self.rng.standard_normal(shape).astype(np.float32) * np.float32(0.3)
        return self.builder.param(
            name, TensorType(DType.F32, shape), np.abs(data) + np.float32(0.5) if positive else data
        )

    def conv(self, x: Value, name: str, out: int, kernel: int, stride: int = 1, groups: int = 1) -> Value:
        weight = self.param(f"{name}.weight", out, x.type.shape[1] // groups, kernel, kernel)
        pad = (kernel // 2,) * 4
        attrs = {"stride": (stride, stride), "pad": pad, "dilation": (1, 1), "groups": groups, "layout": "NCHW"}
        return self.e.op("conv2d", x, weight, **attrs)

    def norm(self, x: Value, name: str) -> Value:
        channels = x.type.shape[1]
        tensors = [
            self.param(f"{name}.weight", channels, positive=True),
            self.param(f"{name}.bias", channels),
            self.param(f"{name}.running_mean", channels),
            self.param(f"{name}.running_var", channels, positive=True),
        ]
        return self.e.op("batch_norm", x, *tensors, epsilon=1e-5, momentum=0.1, training=False)

    def relu6(self, x: Value) -> Value:
        return self.e.op("clip", x, lo=0.0, hi=6.0)

    def linear(self, x: Value, name: str, out: int) -> Value:
        weight, bias = self.param(f"{name}.weight", out, x.type.shape[-1]), self.param(f"{name}.bias", out)
        return self.e.add(self.e.matmul(x, self.e.transpose(weight, (1, 0))), bias)

    def finish(self, logits: Value) -> Graph:
        self.builder.outputs = {"logits": logits}
        return self.builder.finish()


def cnn(batch: int = 2) -> Graph:
    """Inverted bottlenecks with a residual: input [batch, 3, 8, 8], 5 classes."""
    net = Net("cnn")
    x = net.builder.input("x", TensorType(DType.F32, (batch, 3, 8, 8)))
    stem = net.relu6(net.norm(net.conv(x, "c0", 16, 3, 2), "b0"))
    h = net.relu6(net.norm(net.conv(stem, "c1", 32, 1), "b1"))
    h = net.relu6(net.norm(net.conv(h, "c2", 32, 3, groups=32), "b2"))
    h = net.e.add(net.norm(net.conv(h, "c3", 16, 1), "b3"), stem)
    h = net.relu6(net.norm(net.conv(h, "c4", 24, 1, groups=2), "b4"))
    pooled = net.e.reshape(net.e.mean(h, (2, 3)), (batch, 24))
    return net.finish(net.linear(pooled, "fc", 5))


def decoder(batch: int = 2) -> Graph:
    """Down, and up again by interpolation; channels shuffled, rows summed up: input [batch, 3, 8, 8], 5 classes."""
    net = Net("decoder", seed=2)
    e = net.e
    x = net.builder.input("x", TensorType(DType.F32, (batch, 3, 8, 8)))
    wide = net.relu6(net.norm(net.conv(x, "c0", 16, 3), "b0"))
    h = net.relu6(net.norm(net.conv(wide, "c1", 16, 3, 2), "b1"))
    attrs = {**DEFAULTS, "source": 4, "size": 8, "scale": 2.0}
    h = e.op("resample", h, **{**attrs, "axis": 3})
    h = e.op("resample", h, **{**attrs, "axis": 2, "mode": "nearest", "coordinates": "asymmetric", "rounding": "floor"})
    h = e.op("concat", h, wide, axis=1)
    h = e.op("gather", h, e.const(np.arange(32).reshape(2, 16).T.reshape(-1)), axis=1)
    h = net.relu6(net.norm(net.conv(h, "c2", 8, 1), "b2"))
    h = e.mul(e.op("cumsum", h, axis=2, exclusive=False, reverse=True), 0.25)
    h = net.relu6(net.conv(h, "c3", 8, 1))
    return net.finish(net.linear(e.reshape(e.mean(h, (2, 3)), (batch, 8)), "fc", 5))


def transformer(batch: int = 2, time: int = 6, width: int = 16, heads: int = 2) -> Graph:
    """One encoder layer over token embeddings: input_ids [batch, time], 5 classes."""
    net = Net("transformer", seed=1)
    e = net.e
    ids = net.builder.input("input_ids", TensorType(DType.I64, (batch, time)))
    h = e.op("gather", net.param("embed.weight", 11, width), ids, axis=0)

    def split(x: Value) -> Value:
        return e.transpose(e.reshape(x, (batch, time, heads, width // heads)), (0, 2, 1, 3))

    q, k, v = (split(net.linear(h, name, width)) for name in ("query", "key", "value"))
    mixed, _ = e.multi("attention", (q, k, v), scale=(width // heads) ** -0.5, causal=False)
    merged = e.reshape(e.transpose(mixed, (0, 2, 1, 3)), (batch, time, width))
    h = _layer_norm(net, e.add(h, net.linear(merged, "out", width)), "norm1")
    inner = e.op("gelu", net.linear(h, "up", 4 * width), approximate="none")
    h = _layer_norm(net, e.add(h, net.linear(inner, "down", width)), "norm2")
    first = e.reshape(e.op("slice", h, starts=(0, 0, 0), stops=(batch, 1, width), steps=(1, 1, 1)), (batch, width))
    return net.finish(net.linear(e.op("tanh", first), "fc", 5))


def _layer_norm(net: Net, x: Value, name: str) -> Value:
    width = x.type.shape[-1]
    scale, bias = net.param(f"{name}.weight", width, positive=True), net.param(f"{name}.bias", width)
    return net.e.op("layer_norm", x, scale, bias, axis=-1, epsilon=1e-5)


WHOLE = ALGEBRA + SHAPING


def optimised(graph: Graph, frozen: Collection[str] = (), passes: tuple[Pass[Context], ...] = WHOLE) -> Graph:
    """The graph after passes that ask for frozen parameters alone."""
    return optimise(graph, passes, Context(frozen=frozen))


def batch(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs and labels for one of these networks."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for value in graph.inputs:
        shape = value.type.shape
        arrays[value.name] = (
            rng.standard_normal(shape).astype(np.float32) if value.type.dtype.is_float else rng.integers(0, 11, shape)
        )
    arrays["labels"] = rng.integers(0, 5, graph.outputs["logits"].type.shape[0])
    return arrays
