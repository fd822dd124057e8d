"""Differentiation, and the training step built on it."""

from .averages import averaged
from .backward import active_values, backward, prepare
from .evaluation import CORRECT, COUNTED, LOSS_WEIGHT, SAMPLE_LOSS, eval_graph, predict_graph, without_losses
from .objective import SAMPLE_WEIGHT
from .step import LOSS, accumulate_graph, train_graph

__all__ = [
    "CORRECT",
    "COUNTED",
    "LOSS",
    "LOSS_WEIGHT",
    "SAMPLE_LOSS",
    "SAMPLE_WEIGHT",
    "accumulate_graph",
    "active_values",
    "averaged",
    "backward",
    "eval_graph",
    "predict_graph",
    "prepare",
    "train_graph",
    "without_losses",
]
