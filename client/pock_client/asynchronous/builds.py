"""Builds: asked for, followed, waited for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import UNSET

from pock_client.asynchronous.files import Models
from pock_client.asynchronous.followed import Followed
from pock_client.asynchronous.named import Versioned
from pock_client.asynchronous.transport import Transport
from pock_client.calls import Call, part, sending, settling
from pock_client.errors import BuildCancelled, BuildFailed
from pock_client.events import Event
from pock_client.references import Identified, Reference, recipe_text
from pock_client.schema import Build, BuildIn, BuildPage, Tune


class Builds(Versioned[Build], Followed[Build]):
    """`client.builds`."""

    words = "build"
    path = "/builds"
    kind = Build
    page = BuildPage

    def __init__(self, transport: Transport, models: Models) -> None:
        super().__init__(transport)
        self._models = models

    async def create(
        self,
        *,
        model: Reference,
        recipe: str | dict[str, Any] | Path | Identified,
        target: str,
        threads: int | None = None,
        name: str | None = None,
        priority: int = 0,
        tune: str = "off",
    ) -> Build:
        """Ask for a build. `recipe` is YAML text, an object, the path of a file, or one of `client.recipes`. The
        same request finds the same build while it is queued, running or succeeded. `tune="fleet"`: with what devices
        measured; what they have not is tried on idle ones (`client.tuning`), and the same request makes a new build
        once more is known."""
        text = recipe_text(recipe) if isinstance(recipe, str | dict | Path) else UNSET
        body = BuildIn(
            model_id=await self._models.id_of(model),
            recipe=text,
            recipe_id=UNSET if isinstance(recipe, str | dict | Path) else recipe.id,
            target=target,
            threads=threads or UNSET,
            name=name or UNSET,
            priority=priority or UNSET,
            tune=UNSET if tune == "off" else Tune(tune),
        )
        return await self._transport.json(sending("POST", self.path, body, once=True), Build)

    async def cancel(self, ident: str) -> Build:
        """Cancel a build that is queued or running."""
        return await self._transport.json(settling(self.path, ident, "cancel"), Build)

    async def log(self, ident: str) -> str:
        """The build's log."""
        return await self._transport.text(Call("GET", f"{self.path}/{part(ident)}/log"))

    async def wait(
        self, ident: str, on_event: Callable[[Event], object] | None = None, timeout: float | None = None
    ) -> Build:
        """The build once it succeeded. Raises BuildFailed, BuildCancelled, or WaitTimeout after `timeout` seconds."""
        return _succeeded(await self.ended(ident, on_event, timeout))


def _succeeded(build: Build) -> Build:
    """The build, if it is over and well."""
    if build.state == "succeeded":
        return build
    code, detail = (build.failure.code, build.failure.detail) if build.failure else (None, "")
    raise (BuildCancelled if build.state == "cancelled" else BuildFailed)(build.id, build.state, code, detail)
