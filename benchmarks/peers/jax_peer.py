"""JAX: one jitted step over a dictionary of parameters, old ones donated. Images are NHWC and kernels HWIO, which XLA
prefers on CPUs. In bfloat16, the weights are cast on the way in and the logits on the way out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from benchmarks.peers import jax_models
from benchmarks.peers.case import Case
from benchmarks.peers.training import Training
from benchmarks.workloads import LEARNING_RATE, MOMENTUM, Array

Params = dict[str, jax.Array]


def build(case: Case, variant: str, threads: int) -> Training:
    del threads  # XLA takes its threads from the process's affinity
    weights = case.weights()
    layouts = {name: _to_jax(name, array) for name, array in weights.items() if array.dtype.kind == "f"}
    trained = {name: jnp.asarray(layouts[name]) for name in case.trained}
    frozen = {name: jnp.asarray(array) for name, array in layouts.items() if name not in trained}
    masks = {name: jnp.asarray(_to_jax(name, mask)) for name, mask in case.masks(weights).items()}
    feed = case.feed()
    inputs = feed[case.workload.model.input_name]
    batch = (jnp.asarray(inputs.transpose(0, 2, 3, 1) if inputs.ndim == 4 else inputs), jnp.asarray(feed["labels"]))
    del weights, layouts
    model = jax_models.MODELS[case.workload.family]
    loss_of = _causal if case.workload.model.loss == "causal_lm" else _classification

    @partial(jax.jit, donate_argnums=(0, 1))
    def update(
        trained: Params, momentum: Params, frozen: Params, masks: Params, inputs: jax.Array, labels: jax.Array
    ) -> tuple[Params, Params, jax.Array]:
        def loss(trained: Params) -> jax.Array:
            params = {**frozen, **trained}
            if "bf16" in variant:
                params = {name: array.astype(jnp.bfloat16) for name, array in params.items()}
            return loss_of(model(params, inputs).astype(jnp.float32), labels)

        value, gradients = jax.value_and_grad(loss)(trained)
        gradients = {name: g * masks[name] if name in masks else g for name, g in gradients.items()}
        momentum = {name: MOMENTUM * momentum[name] + g for name, g in gradients.items()}
        return {name: trained[name] - LEARNING_RATE * momentum[name] for name in trained}, momentum, value

    wait_for: Callable[[object], object] = jax.block_until_ready
    state = [trained, jax.tree.map(jnp.zeros_like, trained)]

    def step() -> float:
        state[0], state[1], loss = update(state[0], state[1], frozen, masks, *batch)
        wait_for(state)
        return float(loss)

    return Training(step, sum(array.size for array in trained.values()))


def _to_jax(name: str, array: Array) -> Array:
    """Kernels [out, in, h, w] -> [h, w, in, out]; matrices of linear layers [out, in] -> [in, out]."""
    if array.ndim == 4:
        return array.transpose(2, 3, 1, 0)
    return array.T if array.ndim == 2 and "embed" not in name else array


def _classification(logits: jax.Array, labels: jax.Array) -> jax.Array:
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1)
    return -picked.mean()


def _causal(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return _classification(logits[:, :-1], labels[:, 1:])
