"""Differentiation, and the training step built on it."""

from .backward import active_values, backward, prepare
from .evaluation import CORRECT, COUNTED, LOSS_WEIGHT, SAMPLE_LOSS, eval_graph, predict_graph, without_losses
from .forms.averages import averaged
from .forms.dropout import with_dropout, without_dropout
from .forms.norms import norms_graph
from .forms.teacher import Untrained
from .generator import GENERATOR
from .lora import Adapter, adapters_of, with_adapters
from .narrowed import narrowed
from .objective import SAMPLE_WEIGHT
from .quantised import Quantised, with_quantised
from .step import LOSS, accumulate_graph, train_graph
from .widened import widened

__all__ = [
    "CORRECT",
    "COUNTED",
    "GENERATOR",
    "LOSS",
    "LOSS_WEIGHT",
    "SAMPLE_LOSS",
    "SAMPLE_WEIGHT",
    "Adapter",
    "Quantised",
    "Untrained",
    "accumulate_graph",
    "active_values",
    "adapters_of",
    "averaged",
    "backward",
    "eval_graph",
    "narrowed",
    "norms_graph",
    "predict_graph",
    "prepare",
    "train_graph",
    "widened",
    "with_adapters",
    "with_dropout",
    "with_quantised",
    "without_dropout",
    "without_losses",
]
