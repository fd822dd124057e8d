"""The search as a person calls it from Python.

`import pockengine` reads this module, which imports the search when it is called."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import PockError, nearest
from ...ir import Graph
from ...progress import Progress, quiet
from ...recipe import Recipe
from ...targets import Target, get

if TYPE_CHECKING:
    from ..choosing import Preference
    from .data import Data
    from .found import Found


def search(
    graph: Graph,
    recipe: Recipe,
    data: Data,
    target: str | Target = "host",
    threads: int | None = None,
    *,
    memory: int | None = None,
    step_ms: float | None = None,
    joules: float | None = None,
    watts: float | None = None,
    eval_data: Data | None = None,
    method: str = "fisher",
    channels: str = "activation",
    prefer: str = "accuracy",
    minutes: float = 30.0,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    lr_steps: int = 0,
    tries: bool = False,
    recompute: bool | None = None,
    at_batch: Callable[[int], Graph] | None = None,
    micro_batches: bool | None = None,
    confirm: int = 0,
    ranks: Sequence[int] = (),
    progress: Progress = quiet,
) -> Found:
    """Find which parameters to train within limits. `Recipe.parse(found.recipe)` trains them.

    graph      the imported model, batch included in its shapes
    recipe     loss, optimizer and batch; its `update` is not read
    data       input name -> [samples, …], targets included: what will be trained on
    target     what is trained on: a name of `pock targets`, or a Target; threads: of a step, by default its cores
    memory     bytes that the predicted peak may be; step_ms: milliseconds that a step may take, as predicted
    joules     that a step may take; needs `watts`, what the target draws while it trains
    eval_data  samples that were held out; for `measured` and `confirm`
    method     how contributions are found: `fisher`, `measured` or `gradient`
    channels   what chooses input channels to train of a weight: `activation`, `fisher`, `gradient` or `magnitude`
    prefer     which scheme within the limits: `accuracy`, `memory`, `time` or `balanced`
    minutes    what finding contributions may take, and finding learning rates again
    seed       of all that is drawn; progress: called with (stage, done, total)
    folder     keeps results as they come, so that the same call goes on where one was ended
    lr_steps   steps of each of the short trainings that find learning rates, as `--lr` does; 0: the recipe's stay
    tries      train usual schemes that fit, too, each at its best rates, and take what is best; needs `lr_steps`
    recompute  what fits because forward nodes are computed twice counts, too; default: where `memory` is given
    at_batch   imports the model for so many samples a step: steps may then take their samples in micro-batches
    micro_batches  what fits because of that counts, too; default: where `memory` is given and it trains the same
    confirm    steps of short trainings of the found scheme and of usual ones, which then have accuracies
    ranks      of low-rank adapters that may be trained beside weights in the place of the weights

    Raises DataError, MemoryBudgetError, PockError, RecipeError, UnsupportedOperatorError, TargetError."""
    from ..choosing import Limits
    from . import Energy, SearchRequest, run

    device = get(target) if isinstance(target, str) else target
    energy, kept = Energy.of(joules, watts, device.name), None if folder is None else Path(folder)
    request = SearchRequest(graph, recipe, data, device, Limits(memory, step_ms), eval_data, method, channels)
    request = replace(request, minutes=minutes, seed=seed, threads=threads, lr_steps=lr_steps, confirm=confirm)
    request = replace(request, ranks=tuple(ranks), prefer=_preference(prefer), folder=kept, energy=energy, tries=tries)
    return run(replace(request, recompute=recompute, at_batch=at_batch, micro_batches=micro_batches, progress=progress))


def _preference(name: str) -> Preference:
    from ..choosing import Preference

    if name not in list(Preference):
        raise PockError(f"nothing prefers '{name}'{nearest(name, Preference)}")
    return Preference(name)
