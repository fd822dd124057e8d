"""What the user wants trained, how, and with which loss: the recipe, and its resolution against one model."""

from .frozen import Frozen
from .groups import Clip, Group
from .lora import LayerRank, Lora, adapter_names, is_adapter, matches, module_of
from .losses.kinds import Loss
from .optimizer import OPTIMIZERS, SGD, Adafactor, Adam, AdamW, Lamb, Lion, Optimizer
from .rate_schedule import RateSchedule
from .recipe import Recipe
from .resolution.layers import Layer, LayerParameter, layer_names, layers_of, node_flops
from .resolution.scheme import (
    Channels,
    Scheme,
    Update,
    batch_of,
    no_gradient,
    parameter_order,
    resolve,
    running_statistics,
    without_gradient,
)
from .rules import ALL, FROZEN, UpdateRule
from .trained import Trained

__all__ = [
    "ALL",
    "FROZEN",
    "OPTIMIZERS",
    "SGD",
    "Adafactor",
    "Adam",
    "AdamW",
    "Channels",
    "Clip",
    "Frozen",
    "Group",
    "Lamb",
    "Layer",
    "LayerParameter",
    "LayerRank",
    "Lion",
    "Lora",
    "Loss",
    "Optimizer",
    "RateSchedule",
    "Recipe",
    "Scheme",
    "Trained",
    "Update",
    "UpdateRule",
    "adapter_names",
    "batch_of",
    "is_adapter",
    "layer_names",
    "layers_of",
    "matches",
    "module_of",
    "no_gradient",
    "node_flops",
    "parameter_order",
    "resolve",
    "running_statistics",
    "without_gradient",
]
