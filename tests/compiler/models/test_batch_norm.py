"""Batch norm in training mode against PyTorch's `train()`: batch statistics forward and backward, running ones updated.

Three steps, not ten: with four images to a batch, norms over few pixels amplify rounding so fast that PyTorch in
float32 and in float64 part ways too.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import nn

from pockengine.compile import compile
from pockengine.recipe import SGD, Recipe

from . import zoo

STEPS = 3


def test_training_mode_follows_pytorch() -> None:
    torch.set_num_threads(1)
    module = copy.deepcopy(zoo.module("resnet18")).train()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = 0.1
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9)
    recipe = Recipe(optimizer=SGD(lr=1e-3, momentum=0.9), update="full", batch=zoo.BATCH, batch_norm="train")
    session = compile(zoo.graph("resnet18"), recipe, target="host", threads=2).load()
    model = zoo.MODELS["resnet18"]
    for step in range(6, 6 + STEPS):  # a number of batches 0 to 3 lies within rounding of the kink of its ReLU
        loss = nn.functional.cross_entropy(module(**model.inputs(step)).logits, model.targets(step)["labels"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(session.step(model.feeds(step)), loss.item(), rtol=1e-4)
    found, initial = session.state(), zoo.parameters("resnet18")
    for name, tensor in module.state_dict().items():
        if tensor.dtype.is_floating_point:
            expected = tensor.numpy()
            assert not np.array_equal(found[name], initial[name]), f"{name} was not updated"
            assert np.abs(found[name] - expected).max() <= 1e-3 * np.abs(expected).max(), name
