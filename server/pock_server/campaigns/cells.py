"""Makes the cells of a campaign: each build on each device of its target, with each seed, in their order."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest

from pock_server.builds.tables import BuildRecord
from pock_server.campaigns.schemas import MAX_CELLS, CampaignIn, CellState
from pock_server.campaigns.tables import CampaignCellRecord
from pock_server.devices.tables import DeviceRecord
from pock_server.http.problems import Failure, Problem

_TOLD = 8
"""Targets that a refusal names."""


def expand(
    campaign_id: str, order: CampaignIn, builds: Sequence[BuildRecord], devices: Sequence[DeviceRecord]
) -> list[CampaignCellRecord]:
    """The cells, those of canaries first; then all devices with the first seed, and so on. `devices`: those chosen, in
    the order in which they are to begin. Raises a 422 `Problem` if there are none, or too many."""
    pairs = [(build, device) for build in builds for device in devices if build.target == device.target]
    if not pairs:
        raise Problem(Failure.INVALID, f"body.on: {_nothing_fits(order.on, builds, devices)}")
    count = len(pairs) * len(order.seeds)
    if count > MAX_CELLS:
        detail = f"This would be {count} runs; a campaign has {MAX_CELLS} at most: choose fewer devices or seeds."
        raise Problem(Failure.INVALID, f"body.on: {detail}")
    fitting = list({device.id: device for _, device in pairs}.values())
    canaries = _canaries(fitting, order.canary.devices) if order.canary else frozenset()
    every = [(device.id in canaries, seed, build, device) for seed in order.seeds for build, device in pairs]
    every.sort(key=lambda one: not one[0])
    return [
        CampaignCellRecord(
            campaign_id=campaign_id,
            number=number,
            build_id=build.id,
            device_id=device.id,
            device_name=device.name,
            target=build.target,
            seed=seed,
            canary=canary,
            state=CellState.PENDING,
        )
        for number, (canary, seed, build, device) in enumerate(every)
    ]


def missing_targets(builds: Iterable[BuildRecord], devices: Iterable[DeviceRecord]) -> list[str]:
    """Targets of builds of which there is no device."""
    return sorted({build.target for build in builds} - {device.target for device in devices})


def _canaries(devices: Sequence[DeviceRecord], count: int) -> frozenset[str]:
    """The ids of so many devices: the first of each target, then the second ones."""
    of_target: dict[str | None, list[str]] = defaultdict(list)
    for device in devices:
        of_target[device.target].append(device.id)
    turns = chain.from_iterable(zip_longest(*of_target.values()))
    return frozenset([device_id for device_id in turns if device_id is not None][:count])


def _nothing_fits(on: str, builds: Sequence[BuildRecord], devices: Sequence[DeviceRecord]) -> str:
    wanted = ", ".join(missing_targets(builds, devices)[:_TOLD])
    if not devices:
        return f"no device is chosen by {on!r}; the builds are for {wanted}."
    found = Counter(device.target or "a target that is not known" for device in devices)
    there = ", ".join(f"{target} ({count})" for target, count in found.most_common(_TOLD))
    return f"no device that {on!r} chooses is of a target that was built for ({wanted}); they are of {there}."
