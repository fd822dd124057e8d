"""The programs that change nothing: eval (loss and accuracy of each sample) and predict."""

from __future__ import annotations

from ..ir import Graph, verify
from ..ops import prune
from ..recipe import Recipe
from .objective import with_loss

SAMPLE_LOSS = "sample_loss"
CORRECT = "correct"


def predict_graph(model: Graph) -> Graph:
    """The model's outputs from its inputs."""
    return verify(prune(model), "predict")


def eval_graph(model: Graph, recipe: Recipe) -> Graph:
    """Per-sample loss, share of right answers where the loss defines it, and the model's outputs."""
    builder, values = with_loss(model, recipe)
    correct = {} if values.correct is None else {CORRECT: values.correct}
    builder.outputs = {SAMPLE_LOSS: values.sample_loss, **correct, **model.outputs}
    return verify(prune(builder.finish()), "eval")
