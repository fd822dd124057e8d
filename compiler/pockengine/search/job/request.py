"""What is asked of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import PockError, nearest
from ...ir import Graph
from ...progress import Progress, quiet
from ...recipe import Recipe
from ...targets import Target
from ..choosing import Limits, Preference
from ..contributions.importance import check_way
from ..micro_batches import AtBatch, MicroBatches
from ..space import Space
from .data import Data
from .energy import Energy

METHODS = ("fisher", "measured", "gradient")
"""How contributions are found."""
MOST_RANK, MOST_RANKS = 1024, 4
"""Of adapters."""


@dataclass(frozen=True, eq=False)
class SearchRequest:
    """A model, data, a device and limits.

    graph      the imported model
    base       the recipe whose loss, optimizer and batch the found one has; its `update` is not read
    data       input name -> [samples, …], targets included
    target     what the scheme is for
    limits     what a training step may take there
    eval_data  samples that were held out; needed to measure contributions, and to confirm
    method     one of METHODS
    channels   by what the channels of a share are chosen: one of WAYS
    prefer     which scheme of those within the limits
    minutes    the time that contributions may take, and learning rates again; what is measured until then counts
    seed       of all that is drawn
    threads    of the target; None: its cores
    folder     where results are kept as they come, so that a search that was ended goes on; None: nowhere
    lr_steps   steps of each of the short trainings that find learning rates; 0: the recipe's stay
    tries      train what else fits, too, at its best learning rates, and take what is best; needs `lr_steps`
    confirm    steps of a short training of the found scheme and of usual ones, at the end; 0: none
    progress   called with (stage, done, total)
    energy     what the device draws, and the limit of a step's energy; None: nothing is known of it
    at_batch   imports the model for so many samples a step; None: it is for one number of them only
    micro_batches  count as within the limit of memory what keeps to it only where a step takes its samples in
               micro-batches; None: where there is such a limit, and that trains the same
    recompute  count as within the limit of memory what keeps to it only where forward nodes are computed twice; None:
               where there is such a limit
    ranks      of low-rank adapters that may be trained beside weights; none: no adapters"""

    graph: Graph
    base: Recipe
    data: Data
    target: Target
    limits: Limits = field(default_factory=Limits)
    eval_data: Data | None = None
    method: str = "fisher"
    channels: str = "activation"
    prefer: Preference = Preference.ACCURACY
    minutes: float = 30.0
    seed: int = 0
    threads: int | None = None
    folder: Path | None = None
    lr_steps: int = 0
    confirm: int = 0
    progress: Progress = quiet
    energy: Energy | None = None
    ranks: tuple[int, ...] = ()
    tries: bool = False
    recompute: bool | None = None
    at_batch: AtBatch | None = None
    micro_batches: bool | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise PockError(f"there is no method '{self.method}'{nearest(self.method, METHODS)}")
        check_way(self.channels)
        check_ranks(self.ranks, self.method)
        for name in ("lr_steps", "confirm"):
            if getattr(self, name) < 0:
                raise PockError(f"{name} is a number of steps, so it cannot be {getattr(self, name)}")
        if self.tries and not self.lr_steps:
            raise PockError("schemes are tried at learning rates that are looked for: give lr_steps, too")
        if self.recompute and self.limits.memory_bytes is None:
            raise PockError("nodes are computed twice to keep to a limit of memory: give one, or leave recompute out")
        if self.micro_batches and (self.limits.memory_bytes is None or self.at_batch is None):
            missing = "a limit of memory" if self.limits.memory_bytes is None else "at_batch"
            raise PockError(f"micro-batches keep to a limit of memory: give {missing}, or leave micro_batches out")
        if self.eval_data is None and (self.method == "measured" or self.confirm):
            wanted = "measuring contributions" if self.method == "measured" else "confirming a scheme"
            raise PockError(f"{wanted} needs samples that were held out: give --eval-data")

    @property
    def computes_twice(self) -> bool:
        """Whether nodes may be computed twice to keep to the memory."""
        return self.limits.memory_bytes is not None if self.recompute is None else self.recompute

    def splits(self, space: Space, data: Data) -> MicroBatches | None:
        """The micro-batches that steps may take; None where they take all samples at once. Raises PockError where they
        were asked for and would train otherwise."""
        if self.limits.memory_bytes is None or self.at_batch is None or self.micro_batches is False:
            return None
        try:
            return MicroBatches.of(space, self.at_batch, data)
        except PockError:
            if self.micro_batches:
                raise
            return None


def check_ranks(ranks: Sequence[int], method: str) -> None:
    """Raises PockError where these ranks cannot be searched among."""
    for rank in ranks:
        if not 1 <= rank <= MOST_RANK:
            raise PockError(f"the rank of an adapter is between 1 and {MOST_RANK}, not {rank}")
    if len(ranks) > MOST_RANKS:
        raise PockError(f"give at most {MOST_RANKS} ranks of adapters, not {len(ranks)}: each is shaped and weighed")
    if ranks and method != "fisher":
        raise PockError(f"what adapters bring is known by Fisher information only, not by '{method}': leave --rank out")
