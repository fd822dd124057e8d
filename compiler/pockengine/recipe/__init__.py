"""What the user wants trained, how, and with which loss: the recipe, and its resolution against one model."""

from .layers import Layer, LayerParameter, layers_of, node_flops
from .loss import Loss
from .optimizer import OPTIMIZERS, SGD, Adam, AdamW, Lion, Optimizer
from .recipe import Recipe
from .rules import ALL, FROZEN, UpdateRule
from .scheme import Channels, Scheme, Update, parameter_order, resolve, running_statistics

__all__ = [
    "ALL",
    "FROZEN",
    "OPTIMIZERS",
    "SGD",
    "Adam",
    "AdamW",
    "Channels",
    "Layer",
    "LayerParameter",
    "Lion",
    "Loss",
    "Optimizer",
    "Recipe",
    "Scheme",
    "Update",
    "UpdateRule",
    "layers_of",
    "node_flops",
    "parameter_order",
    "resolve",
    "running_statistics",
]
