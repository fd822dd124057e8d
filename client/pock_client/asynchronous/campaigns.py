"""Campaigns: builds on the devices of their targets with several seeds, followed, waited for, and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

from msgspec import UNSET

from pock_client.asynchronous.builds import Builds
from pock_client.asynchronous.files import Datasets, Models, Recipes
from pock_client.asynchronous.fleet import Devices
from pock_client.asynchronous.followed import Followed
from pock_client.asynchronous.runs import HeldOutOptions
from pock_client.asynchronous.transport import Transport
from pock_client.calls import Call, part, sending, settling
from pock_client.errors import CampaignCancelled, CampaignFailed
from pock_client.events import Event
from pock_client.pausing import AsyncStream
from pock_client.references import Reference
from pock_client.schema import (
    Campaign,
    CampaignIn,
    CampaignPage,
    CampaignResults,
    Canary,
    Cell,
    CellList,
    Entry,
    HeldShare,
    StopRules,
)


class CampaignOrder(TypedDict, total=False):
    """What a campaign may be told beside its name, devices and steps."""

    builds: Sequence[Reference]
    """Finished or not. Or else `model`, `recipes` and `targets`, for the builds of these."""
    model: Reference
    recipes: Sequence[Reference]
    targets: Sequence[str]
    devices: Sequence[Reference]
    """Of those that `on` chooses, only these."""
    dataset: Reference
    """"local:NAME" is what each device keeps itself as NAME; a device without such data is left out, with a reason."""
    eval_dataset: Reference
    held_out: HeldOutOptions
    """Of the data of each training, by its device."""
    entry: str
    """"train", "eval" or "bench"; the last one needs no dataset."""
    seeds: Sequence[int]
    threads: int
    priority: int
    parallelism: int
    """Runs at once; default: one a device."""
    per_device: int
    """Runs at once of one device; default: 1."""
    canary: Mapping[str, int]
    """{"devices": how many go first, "wait_seconds": until the others follow}."""
    stop: Mapping[str, float]
    """{"failed": so many cells} or {"failed_share": more than this part of all}."""
    deadline: int
    """Most seconds of the whole campaign."""
    run_deadline: int
    """Most seconds of each run."""
    retries: Mapping[str, int]
    """How often to try each run again, by class of failure; default: {"transient": 3}."""
    retry_delay: float
    """Seconds before the first retry; each further one waits twice as long."""


@dataclass(frozen=True)
class Ingredients:
    """Where the things are that a campaign is of."""

    models: Models
    recipes: Recipes
    builds: Builds
    datasets: Datasets
    devices: Devices


class Campaigns(Followed[Campaign]):
    """`client.campaigns`."""

    words = "campaign"
    path = "/campaigns"
    kind = Campaign
    page = CampaignPage

    def __init__(self, transport: Transport, sources: Ingredients) -> None:
        super().__init__(transport)
        self._sources = sources

    async def create(self, *, name: str, on: str, steps: int, **order: Unpack[CampaignOrder]) -> Campaign:
        """Run builds on every device of their targets that the selector `on` chooses, with each seed."""
        body = await self.body(name=name, on=on, steps=steps, **order)
        return await self._transport.json(sending("POST", self.path, body, once=True), Campaign)

    async def body(self, *, name: str, on: str, steps: int, **order: Unpack[CampaignOrder]) -> CampaignIn:
        """The same as the service is asked for it, for a schedule."""
        of, canary, stop = self._sources, order.get("canary"), order.get("stop")
        dataset_id, dataset_name = await of.datasets.meant(order.get("dataset"))
        eval_id, eval_name = await of.datasets.meant(order.get("eval_dataset"))
        return CampaignIn(
            name=name,
            on=on,
            steps=steps,
            build_ids=[await of.builds.id_of(one) for one in order.get("builds", ())] or UNSET,
            model_id=await of.models.id_of(order["model"]) if "model" in order else UNSET,
            recipe_ids=[await of.recipes.id_of(one) for one in order.get("recipes", ())] or UNSET,
            targets=list(order.get("targets", ())) or UNSET,
            device_ids=[await of.devices.id_of(one) for one in order.get("devices", ())] or UNSET,
            dataset_id=dataset_id,
            eval_dataset_id=eval_id,
            dataset_name=dataset_name,
            eval_dataset_name=eval_name,
            held_out=HeldShare(**order["held_out"]) if "held_out" in order else UNSET,
            entry=Entry(order["entry"]) if "entry" in order else UNSET,
            seeds=list(order["seeds"]) if "seeds" in order else UNSET,
            threads=order.get("threads", UNSET),
            priority=order.get("priority", UNSET),
            parallelism=order.get("parallelism", UNSET),
            per_device=order.get("per_device", UNSET),
            canary=UNSET if canary is None else Canary(**canary),
            stop=UNSET if stop is None else StopRules(**stop),  # type: ignore[arg-type]
            deadline_seconds=order.get("deadline", UNSET),
            run_deadline_seconds=order.get("run_deadline", UNSET),
            retries=dict(order["retries"]) if "retries" in order else UNSET,
            retry_delay_seconds=order.get("retry_delay", UNSET),
        )

    async def pause(self, ident: str) -> Campaign:
        """Have it ask for no further runs; those that it asked for go on."""
        return await self._transport.json(settling(self.path, ident, "pause"), Campaign)

    async def resume(self, ident: str) -> Campaign:
        """Have it go on."""
        return await self._transport.json(settling(self.path, ident, "resume"), Campaign)

    async def cancel(self, ident: str) -> Campaign:
        """End it, and its runs."""
        return await self._transport.json(settling(self.path, ident, "cancel"), Campaign)

    async def cells(self, ident: str, state: str | None = None) -> AsyncStream[Cell]:
        """Its cells, in the order in which they are begun: each a build on a device with a seed."""
        after = -1
        while True:
            call = Call("GET", f"{self.path}/{part(ident)}/cells", {"after": after, "state": state})
            items = (await self._transport.json(call, CellList)).items
            for cell in items:
                yield cell
            if not items or items[-1].number <= after:
                return
            after = items[-1].number

    async def results(self, ident: str, by: str = "target") -> CampaignResults:
        """What was measured so far: a row a build, or with `by="device"` a row a build and device."""
        return await self._transport.json(
            Call("GET", f"{self.path}/{part(ident)}/results", {"by": by}), CampaignResults
        )

    async def results_csv(self, ident: str, by: str = "target") -> str:
        """The same for a spreadsheet."""
        query = {"by": by, "format": "csv"}
        return await self._transport.text(Call("GET", f"{self.path}/{part(ident)}/results", query))

    async def wait(
        self, ident: str, on_event: Callable[[Event], object] | None = None, timeout: float | None = None
    ) -> Campaign:
        """The campaign once it succeeded: every cell has its outcome. Raises CampaignFailed, CampaignCancelled, or
        WaitTimeout after `timeout` seconds."""
        return _succeeded(await self.ended(ident, on_event, timeout))


def _succeeded(campaign: Campaign) -> Campaign:
    """The campaign, if it is over and well."""
    if campaign.state == "succeeded":
        return campaign
    code, detail = (campaign.failure.code, campaign.failure.detail) if campaign.failure else (None, "")
    kind = CampaignCancelled if campaign.state == "cancelled" else CampaignFailed
    raise kind(campaign.id, campaign.state, code, detail)
