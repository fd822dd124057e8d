"""The models in JAX: functions of a dictionary of parameters, by the names they have in PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.peers.architectures import MCUNET_BLOCKS, MOBILENET_BLOCKS, RESNET_DEPTHS, Bottleneck

Params = dict[str, jax.Array]
Padding = str | list[tuple[int, int]]


def _convolution(p: Params, name: str, x: jax.Array, stride: int, padding: Padding, groups: int = 1) -> jax.Array:
    return lax.conv_general_dilated(
        x, p[name + ".weight"], (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )  # fmt: skip


def _norm(p: Params, name: str, x: jax.Array, epsilon: float) -> jax.Array:
    scale = p[name + ".weight"] * lax.rsqrt(p[name + ".running_var"] + epsilon)
    return x * scale + (p[name + ".bias"] - p[name + ".running_mean"] * scale)


def _linear(p: Params, name: str, x: jax.Array) -> jax.Array:
    y = x @ p[name + ".weight"]
    return y + p[name + ".bias"] if name + ".bias" in p else y


def _relu6(x: jax.Array) -> jax.Array:
    return jnp.clip(x, 0, 6)


class _MobileLayers:
    """Convolution, norm and activation. `same`: padded as TensorFlow does, else by half the kernel on each side."""

    def __init__(self, p: Params, epsilon: float, same: bool) -> None:
        self.p, self.epsilon, self.same = p, epsilon, same

    def __call__(
        self, name: str, x: jax.Array, kernel: int = 1, stride: int = 1, groups: int = 1, relu: bool = True
    ) -> jax.Array:
        padding: Padding = "SAME" if self.same else [(kernel // 2, kernel // 2)] * 2
        y = _convolution(self.p, name + ".convolution", x, stride, padding, groups)
        y = _norm(self.p, name + ".normalization", y, self.epsilon)
        return _relu6(y) if relu else y

    def bottleneck(self, block: Bottleneck, names: tuple[str, str, str], x: jax.Array) -> jax.Array:
        y = self(names[0], x) if block.expanded != block.inputs else x
        y = self(names[1], y, block.kernel, block.stride, groups=block.expanded)
        y = self(names[2], y, relu=False)
        return x + y if block.residual else y


def mobilenetv2(p: Params, x: jax.Array) -> jax.Array:
    layer = _MobileLayers(p, 1e-3, same=True)
    stem = "mobilenet_v2.conv_stem"
    x = layer(f"{stem}.first_conv", x, 3, 2)
    x = layer(f"{stem}.conv_3x3", x, 3, groups=x.shape[-1])
    x = layer(f"{stem}.reduce_1x1", x, relu=False)
    for index, block in enumerate(MOBILENET_BLOCKS):
        at = f"mobilenet_v2.layer.{index}"
        x = layer.bottleneck(block, (f"{at}.expand_1x1", f"{at}.conv_3x3", f"{at}.reduce_1x1"), x)
    x = layer("mobilenet_v2.conv_1x1", x)
    return _linear(p, "classifier", x.mean((1, 2)))


def mcunet(p: Params, x: jax.Array) -> jax.Array:
    layer = _MobileLayers(p, 1e-5, same=False)
    x = layer("stem", x, 3, 2)
    for index, block in enumerate(MCUNET_BLOCKS):
        at = f"blocks.{index}"
        x = layer.bottleneck(block, (f"{at}.expand", f"{at}.depthwise", f"{at}.project"), x)
    return _linear(p, "classifier", x.mean((1, 2)))


def resnet50(p: Params, x: jax.Array) -> jax.Array:
    def layer(name: str, x: jax.Array, kernel: int = 1, stride: int = 1) -> jax.Array:
        y = _convolution(p, name + ".convolution", x, stride, [(kernel // 2, kernel // 2)] * 2)
        return _norm(p, name + ".normalization", y, 1e-5)

    x = jax.nn.relu(layer("resnet.embedder.embedder", x, 7, 2))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0)))
    for stage, depth in enumerate(RESNET_DEPTHS):
        for index in range(depth):
            at = f"resnet.encoder.stages.{stage}.layers.{index}"
            stride = 2 if stage and not index else 1
            y = jax.nn.relu(layer(f"{at}.layer.0", x))
            y = jax.nn.relu(layer(f"{at}.layer.1", y, 3, stride))
            y = layer(f"{at}.layer.2", y)
            x = jax.nn.relu(y + (x if index else layer(f"{at}.shortcut", x, 1, stride)))
    return _linear(p, "classifier.1", x.mean((1, 2)))


def _layer_norm(p: Params, name: str, x: jax.Array, epsilon: float = 1e-12) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + epsilon) * p[name + ".weight"] + p[name + ".bias"]


def _heads(x: jax.Array, heads: int) -> jax.Array:
    """[batch, time, heads * size] -> [batch, time, heads, size]"""
    return x.reshape(*x.shape[:2], heads, -1)


def distilbert(p: Params, tokens: jax.Array, layers: int = 6, heads: int = 12) -> jax.Array:
    at = "distilbert.embeddings"
    x = p[f"{at}.word_embeddings.weight"][tokens] + p[f"{at}.position_embeddings.weight"][: tokens.shape[1]]
    x = _layer_norm(p, f"{at}.LayerNorm", x)
    for index in range(layers):
        at = f"distilbert.transformer.layer.{index}"
        q, k, v = (_heads(_linear(p, f"{at}.attention.{part}_lin", x), heads) for part in "qkv")
        y = jax.nn.dot_product_attention(q, k, v).reshape(x.shape)
        x = _layer_norm(p, f"{at}.sa_layer_norm", x + _linear(p, f"{at}.attention.out_lin", y))
        y = jax.nn.gelu(_linear(p, f"{at}.ffn.lin1", x), approximate=False)
        x = _layer_norm(p, f"{at}.output_layer_norm", x + _linear(p, f"{at}.ffn.lin2", y))
    return _linear(p, "classifier", jax.nn.relu(_linear(p, "pre_classifier", x[:, 0])))


def _rms_norm(p: Params, name: str, x: jax.Array) -> jax.Array:
    return p[name + ".weight"] * (x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6))


def _rotated(x: jax.Array) -> jax.Array:
    """Rotary embedding of [batch, time, heads, size], halves paired as Hugging Face does."""
    time, size = x.shape[1], x.shape[-1]
    angles = jnp.outer(jnp.arange(time), 1e4 ** (-jnp.arange(0, size, 2) / size))
    cos, sin = (jnp.tile(f(angles), 2)[:, None] for f in (jnp.cos, jnp.sin))
    first, second = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-second, first], -1) * sin


def llama(p: Params, tokens: jax.Array, layers: int = 22, heads: int = 32, kv_heads: int = 4) -> jax.Array:
    x = p["model.embed_tokens.weight"][tokens]
    for index in range(layers):
        at = f"model.layers.{index}"
        y = _rms_norm(p, f"{at}.input_layernorm", x)
        q = _rotated(_heads(_linear(p, f"{at}.self_attn.q_proj", y), heads))
        k = _rotated(_heads(_linear(p, f"{at}.self_attn.k_proj", y), kv_heads))
        v = _heads(_linear(p, f"{at}.self_attn.v_proj", y), kv_heads)
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape)
        x = x + _linear(p, f"{at}.self_attn.o_proj", y)
        y = _rms_norm(p, f"{at}.post_attention_layernorm", x)
        y = jax.nn.silu(_linear(p, f"{at}.mlp.gate_proj", y)) * _linear(p, f"{at}.mlp.up_proj", y)
        x = x + _linear(p, f"{at}.mlp.down_proj", y)
    return _linear(p, "lm_head", _rms_norm(p, "model.norm", x))


MODELS: dict[str, Callable[[Params, jax.Array], jax.Array]] = {
    "mobilenetv2": mobilenetv2,
    "mcunet": mcunet,
    "resnet50": resnet50,
    "distilbert": distilbert,
    "llama": llama,
}
