# Generated from pock_client/asynchronous by `python -m client.generate`.
"""Searches for which parameters of a model to train: asked for, followed, waited for, and what they found as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import UNSET

from pock_client.calls import Call, part, sending, settling
from pock_client.errors import PockClientError, SearchCancelled, SearchFailed
from pock_client.events import Event
from pock_client.references import Identified, Reference, recipe_text
from pock_client.schema import Search, SearchChannels, SearchIn, SearchMethod, SearchPage, SearchPreference
from pock_client.synchronous.blobs import Blobs
from pock_client.synchronous.files import Datasets, Models
from pock_client.synchronous.followed import Followed
from pock_client.synchronous.transport import Transport

_CHOICES = {"method": SearchMethod, "channels": SearchChannels, "prefer": SearchPreference}


class Searches(Followed[Search]):
    """`client.searches`."""

    words = "search"
    path = "/searches"
    kind = Search
    page = SearchPage

    def __init__(self, transport: Transport, models: Models, datasets: Datasets, blobs: Blobs) -> None:
        super().__init__(transport)
        self._models = models
        self._datasets = datasets
        self._blobs = blobs

    def create(
        self,
        *,
        model: Reference,
        dataset: Reference,
        target: str,
        eval_dataset: Reference | None = None,
        recipe: str | dict[str, Any] | Path | Identified | None = None,
        **options: Any,
    ) -> Search:
        """Ask which parameters of a model to train on a dataset, within limits. `eval_dataset` was held out; `recipe`
        says loss, optimizer and batch, as for a build; its `update` is not read. `options`, of which none has to be
        given, are `threads`, `memory_bytes`, `step_ms`, `joules`, `watts`, `method`, `channels`, `prefer`, `minutes`,
        `lr_steps`, `tries`, `recompute`, `micro_batches`, `confirm`, `ranks`, `seed`, `name` (of the recipe that is
        found) and `priority`: docs/search.md. The same request finds the same search while it is queued, running or
        succeeded. Raises TypeError for an option that there is not."""
        given = recipe is not None and not isinstance(recipe, str | dict | Path)
        wanted = {name: value for name, value in options.items() if value is not None}
        for name, kind in _CHOICES.items():
            if name in wanted:
                wanted[name] = kind(wanted[name])
        body = SearchIn(
            model_id=self._models.id_of(model),
            dataset_id=self._datasets.id_of(dataset),
            eval_dataset_id=UNSET if eval_dataset is None else self._datasets.id_of(eval_dataset),
            recipe=recipe_text(recipe) if isinstance(recipe, str | dict | Path) else UNSET,
            recipe_id=getattr(recipe, "id", UNSET) if given else UNSET,
            target=target,
            **wanted,
        )
        return self._transport.json(sending("POST", self.path, body, once=True), Search)

    def cancel(self, ident: str) -> Search:
        """Cancel a search that is queued or running; asked for again, it goes on from what it had found."""
        return self._transport.json(settling(self.path, ident, "cancel"), Search)

    def log(self, ident: str) -> str:
        """The search's log."""
        return self._transport.text(Call("GET", f"{self.path}/{part(ident)}/log"))

    def wait(
        self, ident: str, on_event: Callable[[Event], object] | None = None, timeout: float | None = None
    ) -> Search:
        """The search once it succeeded: `client.recipes.get(search.recipe_version.id)` is what it found. Raises
        SearchFailed, SearchCancelled, or WaitTimeout after `timeout` seconds."""
        return _succeeded(self.ended(ident, on_event, timeout))

    def report(self, search: Search, path: str | Path) -> Path:
        """Write the page that says why each layer is in or out, a file of HTML without scripts, to `path`."""
        return self._blobs.download(_digest(search.report_digest), path)

    def result(self, search: Search, path: str | Path) -> Path:
        """Write all that was found, what `pock search --json` prints, to `path`."""
        return self._blobs.download(_digest(search.result_digest), path)


def _digest(found: str | None) -> str:
    if found is None:
        raise PockClientError("this search has found nothing: it has not succeeded")
    return found


def _succeeded(search: Search) -> Search:
    """The search, if it is over and well."""
    if search.state == "succeeded":
        return search
    code, detail = (search.failure.code, search.failure.detail) if search.failure else (None, "")
    raise (SearchCancelled if search.state == "cancelled" else SearchFailed)(search.id, search.state, code, detail)
