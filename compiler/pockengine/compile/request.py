"""What is asked of the compiler: one value that goes through all stages."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from ..codegen import backends
from ..codegen.backend import Backend
from ..ir import Graph
from ..plan.pipeline import Pipeline
from ..progress import Progress, quiet
from ..recipe import Recipe
from ..targets import Target


class Scope(Enum):
    """Which programs are planned."""

    ALL = "all"
    """Training, evaluation, prediction, and accumulation where the recipe has it: what an artifact holds."""

    TRAINING = "training"
    """The training step alone: for questions about it."""


@dataclass(frozen=True, eq=False)
class Request:
    """A model, how it is trained, and the device it is trained on.

    model     the imported model, batch included in its shapes
    threads   the most threads that kernels use; None: the target's cores
    name      of the artifact; None: the model's
    memory    bytes that the whole process may take; None: what the quickest step takes
    pipeline  the passes; None: the backend's
    backend   what lowers nodes
    dump      a folder for the graph after each pass
    progress  called as the stages go on
    scope     the programs that are wanted
    dense     backward nodes of training everything, where that is known; None: they are counted"""

    model: Graph
    recipe: Recipe
    target: Target
    threads: int | None = None
    name: str | None = None
    memory: int | None = None
    pipeline: Pipeline | None = None
    backend: Backend = field(default_factory=backends.get)
    dump: Path | None = None
    progress: Progress = quiet
    scope: Scope = Scope.ALL
    dense: int | None = None

    @property
    def passes(self) -> Pipeline:
        """The lists of passes that are run."""
        return self.pipeline or self.backend.pipeline

    def dumped(self, *names: str) -> Path | None:
        """The folder for the graphs after each pass of one list, where they are wanted."""
        return self.dump.joinpath(*names) if self.dump else None
