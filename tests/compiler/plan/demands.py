"""Demands shaped like a training step: activations nest like a stack, gradients follow them back."""

import random

from pockengine.plan import Buffer, Demand


def training_demand(layers: int, seed: int, saved: float = 0.6) -> Demand:
    """Forward then backward over `layers` layers of random sizes, with residuals, workspaces, gradients and updates.

    `saved` is the share of the activations that the backward pass reads.
    """
    chance = random.Random(seed)
    steps = 3 * layers + 1
    buffers: list[Buffer] = []
    size = 4 * chance.randint(10_000, 200_000)
    for layer in range(layers):
        size = max(256, int(size * chance.choice([1, 1, 1, 6, 1 / 6, 0.5])) // 4 * 4)
        size = min(size, 8_000_000)
        backward = layers + 1 + 2 * (layers - 1 - layer)
        last = backward + 1 if chance.random() < saved else layer + 1
        if chance.random() < 0.2:
            last = max(last, min(layers, layer + 3))
        buffers.append(Buffer(f"a{layer}", size, layer, last, "activation"))
        if chance.random() < 0.4:
            buffers.append(Buffer(f"w{layer}", chance.randint(1_000, 600_000), layer, layer, "workspace"))
        buffers.append(Buffer(f"dx{layer}", size, backward, min(steps - 1, backward + 2), "gradient"))
        buffers.append(Buffer(f"dw{layer}", chance.randint(64, 900_000), backward + 1, backward + 1, "gradient"))
        if chance.random() < 0.2:
            buffers.append(Buffer(f"dr{layer}", size, backward, min(steps - 1, backward + 5), "gradient"))
    return Demand(steps, tuple(buffers))


def inference_demand(layers: int, seed: int) -> Demand:
    """Forward only: each activation dies with its reader, now and then a residual lives a few steps longer."""
    chance = random.Random(seed)
    buffers: list[Buffer] = []
    size = 1_000_000
    for layer in range(layers):
        size = min(max(256, int(size * chance.choice([1, 1, 1, 6, 1 / 6, 0.5, 2]))), 20_000_000)
        buffers.append(
            Buffer(f"a{layer}", size, layer, min(layers - 1, layer + chance.choice([1, 1, 1, 4])), "activation")
        )
        if chance.random() < 0.5:
            buffers.append(Buffer(f"w{layer}", chance.randint(1_000, 2_000_000), layer, layer, "workspace"))
    return Demand(layers, tuple(buffers))


def random_demand(count: int, steps: int, seed: int) -> Demand:
    """Lifetimes without structure, mean length 20 steps: harder to pack than any model."""
    chance = random.Random(seed)
    buffers = []
    for index in range(count):
        first = chance.randrange(steps)
        last = min(steps - 1, first + int(chance.expovariate(1 / 20)))
        buffers.append(Buffer(f"b{index}", int(64 * 2 ** chance.uniform(0, 14)), first, last, "activation"))
    return Demand(steps, tuple(buffers))
