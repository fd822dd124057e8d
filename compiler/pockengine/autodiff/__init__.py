"""Differentiation, and the training step built on it."""

from .backward import active_values, backward, prepare
from .step import CORRECT, LOSS, SAMPLE_LOSS, eval_graph, predict_graph, train_graph

__all__ = [
    "CORRECT",
    "LOSS",
    "SAMPLE_LOSS",
    "active_values",
    "backward",
    "eval_graph",
    "predict_graph",
    "prepare",
    "train_graph",
]
