"""What is asked of the compiler: one value that goes through all stages."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TypeVar

from ..codegen import backends
from ..codegen.backend import Backend
from ..ir import Graph
from ..passes import Context, Pass, optimise
from ..plan.pipeline import Pipeline
from ..progress import Progress, quiet
from ..recipe import Recipe
from ..targets import Target
from .kept import Kept

UNCHANGING = ("eval", "predict")
"""Programs that depend on little of what is trained."""

T = TypeVar("T")
P = TypeVar("P", bound=Context)


class Scope(Enum):
    """Which programs are planned."""

    ALL = "all"
    """Training, evaluation, prediction, and accumulation where the recipe has it: what an artifact holds."""

    TRAINING = "training"
    """The training step alone, with accumulation where the recipe has it: for questions about it."""

    UPDATE = "update"
    """Of the training step the program that updates: all of it, or its last micro-batch."""


@dataclass(frozen=True, eq=False)
class Request:
    """A model, how it is trained, and the device it is trained on.

    model     the imported model, batch included in its shapes
    threads   the most threads that kernels use; None: the target's cores
    name      of the artifact; None: the model's
    memory    bytes that the whole process may take; None: what the recipe says, or what the quickest step takes
    pipeline  the passes; None: the backend's
    backend   what lowers nodes
    dump      a folder for the graph after each pass
    progress  called as the stages go on
    scope     the programs that are wanted
    dense     backward nodes of training everything, where that is known; None: they are counted
    kept      what earlier plans have in common with this one; None: all is made anew"""

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
    kept: Kept | None = None

    @property
    def allowed(self) -> int | None:
        """Bytes that the whole process may take; None where nothing says so."""
        return self.recipe.memory if self.memory is None else self.memory

    @property
    def passes(self) -> Pipeline:
        """The lists of passes that are run."""
        return self.pipeline or self.backend.pipeline

    def common(self, key: tuple[Hashable, ...], make: Callable[[], T]) -> T:
        """What requests with this key have in common, as `Kept.get` has it."""
        return make() if self.kept is None else self.kept.get(key, make)

    def optimised(self, program: str, part: str, graph: Graph, passes: tuple[Pass[P], ...], context: P) -> Graph:
        """What `passes`, a part of the pipeline, make of a program. Of one that changes nothing it may be kept."""
        if self.kept is None or self.dump is not None or program not in UNCHANGING:
            return optimise(graph, passes, context, self.dumped(program, part), program)
        return self.kept.optimised(graph, passes, context, program)

    def dumped(self, *names: str) -> Path | None:
        """The folder for the graphs after each pass of one list, where they are wanted."""
        return self.dump.joinpath(*names) if self.dump else None
