"""The models in Keras, layers named as PyTorch names its modules. Images are NHWC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops

from benchmarks.peers.architectures import (
    MCUNET_BLOCKS,
    MCUNET_STEM,
    MOBILENET_BLOCKS,
    MOBILENET_STEM,
    RESNET_DEPTHS,
    RESNET_WIDTHS,
    Bottleneck,
)

Tensor = Any


class _ConvNorm:
    """Convolution, frozen norm, activation. `same`: padded as TensorFlow does, else by half the kernel on each side."""

    def __init__(self, epsilon: float, same: bool, activation: Callable[[Tensor], Tensor]) -> None:
        self.epsilon, self.same, self.activation = epsilon, same, activation

    def __call__(
        self, name: str, x: Tensor, channels: int, kernel: int = 1, stride: int = 1, depthwise: bool = False,
        active: bool = True,
    ) -> Tensor:  # fmt: skip
        if kernel > 1 and stride > 1 and not self.same:
            x = layers.ZeroPadding2D(kernel // 2)(x)
        padding = "same" if self.same or stride == 1 else "valid"
        common = {"strides": stride, "padding": padding, "use_bias": False, "name": f"{name}.convolution"}
        x = layers.DepthwiseConv2D(kernel, **common)(x) if depthwise else layers.Conv2D(channels, kernel, **common)(x)
        x = layers.BatchNormalization(epsilon=self.epsilon, name=f"{name}.normalization")(x, training=False)
        return self.activation(x) if active else x

    def bottleneck(self, block: Bottleneck, names: tuple[str, str, str], x: Tensor) -> Tensor:
        y = self(names[0], x, block.expanded) if block.expanded != block.inputs else x
        y = self(names[1], y, block.expanded, block.kernel, block.stride, depthwise=True)
        y = self(names[2], y, block.outputs, active=False)
        return layers.add([x, y]) if block.residual else y


def mobilenetv2() -> keras.Model:
    inputs = keras.Input((224, 224, 3))
    layer = _ConvNorm(1e-3, True, ops.relu6)
    stem = "mobilenet_v2.conv_stem"
    x = layer(f"{stem}.first_conv", inputs, MOBILENET_STEM, 3, 2)
    x = layer(f"{stem}.conv_3x3", x, MOBILENET_STEM, 3, depthwise=True)
    x = layer(f"{stem}.reduce_1x1", x, MOBILENET_BLOCKS[0].inputs, active=False)
    for index, block in enumerate(MOBILENET_BLOCKS):
        at = f"mobilenet_v2.layer.{index}"
        x = layer.bottleneck(block, (f"{at}.expand_1x1", f"{at}.conv_3x3", f"{at}.reduce_1x1"), x)
    x = layers.GlobalAveragePooling2D()(layer("mobilenet_v2.conv_1x1", x, 1280))
    return keras.Model(inputs, layers.Dense(1000, name="classifier")(x))


def mcunet() -> keras.Model:
    inputs = keras.Input((128, 128, 3))
    layer = _ConvNorm(1e-5, False, ops.relu6)
    x = layer("stem", inputs, MCUNET_STEM, 3, 2)
    for index, block in enumerate(MCUNET_BLOCKS):
        at = f"blocks.{index}"
        x = layer.bottleneck(block, (f"{at}.expand", f"{at}.depthwise", f"{at}.project"), x)
    return keras.Model(inputs, layers.Dense(10, name="classifier")(layers.GlobalAveragePooling2D()(x)))


def resnet50() -> keras.Model:
    inputs = keras.Input((224, 224, 3))
    layer = _ConvNorm(1e-5, False, ops.relu)
    x = layer("resnet.embedder.embedder", inputs, 64, 7, 2)
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(x))  # after a relu, zero is as good as -inf
    for stage, (depth, width) in enumerate(zip(RESNET_DEPTHS, RESNET_WIDTHS, strict=True)):
        for index in range(depth):
            at = f"resnet.encoder.stages.{stage}.layers.{index}"
            stride = 2 if stage and not index else 1
            y = layer(f"{at}.layer.0", x, width // 4)
            y = layer(f"{at}.layer.1", y, width // 4, 3, stride)
            y = layer(f"{at}.layer.2", y, width, active=False)
            x = ops.relu(layers.add([y, x if index else layer(f"{at}.shortcut", x, width, 1, stride, active=False)]))
    return keras.Model(inputs, layers.Dense(1000, name="classifier.1")(layers.GlobalAveragePooling2D()(x)))


def _attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    """Of [batch, time, heads, size]; keys and values may have fewer heads. -> [batch, time, heads * size]"""
    time, heads, size = q.shape[1:]
    if k.shape[2] != heads:
        k, v = (ops.repeat(x, heads // k.shape[2], axis=2) for x in (k, v))
    q, k, v = (ops.transpose(x, (0, 2, 1, 3)) for x in (q, k, v))
    scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) * size**-0.5
    if causal:
        scores = ops.where(ops.tril(ops.ones((time, time), "bool")), scores, -1e9)
    mixed = ops.matmul(ops.softmax(scores), v)
    return ops.reshape(ops.transpose(mixed, (0, 2, 1, 3)), (-1, time, heads * size))


def _heads(x: Tensor, heads: int) -> Tensor:
    return ops.reshape(x, (-1, x.shape[1], heads, x.shape[2] // heads))


class _Positions(layers.Layer):  # type: ignore[misc]  # Keras ships no types
    """Adds a trained vector for each position to [batch, time, width]."""

    def __init__(self, most: int, name: str) -> None:
        super().__init__(name=name)
        self.most = most

    def build(self, shape: tuple[int, ...]) -> None:
        self.table = self.add_weight((self.most, shape[-1]), name="embeddings")

    def call(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]]


def distilbert(length: int = 128, width: int = 768, depth: int = 6, heads: int = 12) -> keras.Model:
    tokens = keras.Input((length,), dtype="int32")
    at = "distilbert.embeddings"
    x = layers.Embedding(30522, width, name=f"{at}.word_embeddings")(tokens)
    x = _Positions(512, name=f"{at}.position_embeddings")(x)
    x = layers.LayerNormalization(epsilon=1e-12, name=f"{at}.LayerNorm")(x)
    for index in range(depth):
        at = f"distilbert.transformer.layer.{index}"
        q, k, v = (_heads(layers.Dense(width, name=f"{at}.attention.{part}_lin")(x), heads) for part in "qkv")
        y = layers.Dense(width, name=f"{at}.attention.out_lin")(_attention(q, k, v))
        x = layers.LayerNormalization(epsilon=1e-12, name=f"{at}.sa_layer_norm")(x + y)
        y = ops.gelu(layers.Dense(4 * width, name=f"{at}.ffn.lin1")(x), approximate=False)
        y = layers.Dense(width, name=f"{at}.ffn.lin2")(y)
        x = layers.LayerNormalization(epsilon=1e-12, name=f"{at}.output_layer_norm")(x + y)
    x = ops.relu(layers.Dense(width, name="pre_classifier")(x[:, 0]))
    return keras.Model(tokens, layers.Dense(2, name="classifier")(x))


def _rotated(x: Tensor) -> Tensor:
    """Rotary embedding of [batch, time, heads, size], halves paired as Hugging Face does."""
    time, size = x.shape[1], x.shape[3]
    frequencies = 1e4 ** (-ops.arange(0, size, 2, dtype="float32") / size)
    angles = ops.arange(time, dtype="float32")[:, None] * frequencies
    cos, sin = (ops.concatenate([f(angles)] * 2, -1)[:, None] for f in (ops.cos, ops.sin))
    first, second = ops.split(x, 2, -1)
    return x * cos + ops.concatenate([-second, first], -1) * sin


def llama(length: int = 512, width: int = 2048, depth: int = 22, heads: int = 32, kv_heads: int = 4) -> keras.Model:
    def linear(name: str, channels: int, x: Tensor) -> Tensor:
        return layers.Dense(channels, use_bias=False, name=name)(x)

    def norm(name: str, x: Tensor) -> Tensor:
        return layers.RMSNormalization(epsilon=1e-6, name=name)(x)

    tokens = keras.Input((length,), dtype="int32")
    x = layers.Embedding(32000, width, name="model.embed_tokens")(tokens)
    narrow = width // heads * kv_heads
    for index in range(depth):
        at = f"model.layers.{index}"
        y = norm(f"{at}.input_layernorm", x)
        q = _rotated(_heads(linear(f"{at}.self_attn.q_proj", width, y), heads))
        k = _rotated(_heads(linear(f"{at}.self_attn.k_proj", narrow, y), kv_heads))
        v = _heads(linear(f"{at}.self_attn.v_proj", narrow, y), kv_heads)
        x = x + linear(f"{at}.self_attn.o_proj", width, _attention(q, k, v, causal=True))
        y = norm(f"{at}.post_attention_layernorm", x)
        y = ops.silu(linear(f"{at}.mlp.gate_proj", 5632, y)) * linear(f"{at}.mlp.up_proj", 5632, y)
        x = x + linear(f"{at}.mlp.down_proj", width, y)
    return keras.Model(tokens, linear("lm_head", 32000, norm("model.norm", x)))


MODELS: dict[str, Callable[[], keras.Model]] = {
    "mobilenetv2": mobilenetv2,
    "mcunet": mcunet,
    "resnet50": resnet50,
    "distilbert": distilbert,
    "llama": llama,
}
