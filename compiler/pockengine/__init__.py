"""PockEngine: compiles a fine-tuning step ahead of time into a small native program for one device.

import pockengine as pock
graph    = pock.load("model.onnx")                      # also pock.from_torch, from_checkpoint, from_jax, from_keras
recipe   = pock.Recipe.load("recipe.yaml")
artifact = pock.compile(graph, recipe, target="host", threads=2)
artifact.save("model.pock")
session  = artifact.load()
loss     = session.step({"input": x, "labels": y})
trained  = pock.train(session, data, pock.Course(epochs=20, eval_share=0.2, patience=3))   # stops early, keeps the best
report   = pock.verify(module, args, recipe)             # against the user's own framework
found    = pock.search(graph, recipe, data, memory=64 << 20)   # which parameters to train: found.recipe
"""

from typing import TYPE_CHECKING

from .artifact import Artifact
from .compile import compile
from .errors import PockError
from .frontends import load
from .lazy import lazily
from .recipe import Recipe
from .search.job.api import search
from .targets import Target
from .targets import all as targets
from .verify.api import from_jax, from_keras, from_torch, verify

if TYPE_CHECKING:
    from .artifact import Course, Session, train
    from .frontends import from_checkpoint
else:
    __getattr__ = lazily(__name__, {"artifact": "Course Session train", "frontends": "from_checkpoint"})

__all__ = [
    "Artifact",
    "Course",
    "PockError",
    "Recipe",
    "Session",
    "Target",
    "compile",
    "from_checkpoint",
    "from_jax",
    "from_keras",
    "from_torch",
    "load",
    "search",
    "targets",
    "train",
    "verify",
]
