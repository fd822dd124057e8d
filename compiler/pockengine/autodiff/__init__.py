"""Differentiation, and the training step built on it."""

from .backward import active_values, backward, prepare
from .evaluation import CORRECT, SAMPLE_LOSS, eval_graph, predict_graph
from .step import LOSS, train_graph

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
