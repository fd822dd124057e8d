"""Which devices take part in a round, on which data, and how much each trains."""

import hashlib
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from pock_server.artifacts.repository import Artifacts
from pock_server.artifacts.tables import ArtifactRecord
from pock_server.builds.repository import Builds
from pock_server.builds.tables import BuildRecord
from pock_server.datasets.local import require_usable
from pock_server.datasets.repository import Datasets
from pock_server.datasets.tables import DatasetRecord
from pock_server.devices.features import Feature, knows
from pock_server.devices.presence import is_in
from pock_server.devices.selectors.conditions import conditions
from pock_server.devices.selectors.grammar import parse
from pock_server.devices.states import DeviceState
from pock_server.devices.tables import DeviceRecord
from pock_server.federations.schemas import PLACEHOLDER, FederationIn
from pock_server.federations.tables import FederationRecord
from pock_server.http.problems import Problem
from pock_server.runs.service import check_dataset


@dataclass(frozen=True)
class Member:
    """A device that is to take part."""

    device: DeviceRecord
    dataset: DatasetRecord
    steps: int
    seed: int


def choose(session: Session, federation: FederationRecord, since: datetime) -> list[Member]:
    """The devices of the present round, at most as many as a round has, by id; `since`: see `heard_since`.

    The order in which devices are asked is drawn with the federation's seed and the number of the round.
    """
    order = FederationIn(**federation.asked)
    build = Builds(session, federation.workspace_id).require(federation.build_id)
    artifact = Artifacts(session, federation.workspace_id).require(build.artifact_digest or "")
    found: list[Member] = []
    for device in _drawn(session, federation, order, build, since):
        dataset = _dataset(session, order, device, artifact)
        if dataset is not None:
            seed = _seed(federation, order, device)
            found.append(Member(device, dataset, _steps(order, dataset, build, artifact), seed))
        if len(found) == order.devices_per_round:
            break
    return sorted(found, key=lambda member: member.device.id)


def _drawn(
    session: Session, federation: FederationRecord, order: FederationIn, build: BuildRecord, since: datetime
) -> Iterator[DeviceRecord]:
    """All devices that are there and can take part, in the round's order."""
    there = or_(is_in(DeviceState.ONLINE, since), is_in(DeviceState.BUSY, since))
    mine = DeviceRecord.workspace_id == federation.workspace_id, DeviceRecord.target == build.target
    query = select(DeviceRecord.id).where(*mine, there, *conditions(parse(order.on), since)).order_by(DeviceRecord.id)
    ids = list(session.scalars(query))
    random.Random(f"{order.seed}/{federation.round}").shuffle(ids)
    for device_id in ids:
        device = session.get_one(DeviceRecord, device_id)
        if knows(device, Feature.INITIAL_WEIGHTS):
            yield device


def _dataset(
    session: Session, order: FederationIn, device: DeviceRecord, artifact: ArtifactRecord
) -> DatasetRecord | None:
    """The data of a device, if it has some that fit; of a name, what stays on the device comes first."""
    datasets = Datasets(session, device.workspace_id)
    if order.datasets is not None:
        row = datasets.find(order.datasets.get(device.id, ""))
    else:
        name = (order.dataset or "").replace(PLACEHOLDER, device.name)
        row = datasets.local(device.id, name) or datasets.newest(name)
    if row is None:
        return None
    try:
        check_dataset(row, artifact)
        require_usable(row, device)
    except Problem:
        return None
    return row


def _steps(order: FederationIn, dataset: DatasetRecord, build: BuildRecord, artifact: ArtifactRecord) -> int:
    if order.steps is not None:
        return order.steps
    accumulated = build.recipe.get("accumulate")
    batch = int(artifact.inputs[0]["shape"][0]) * (accumulated if isinstance(accumulated, int) else 1)
    return min(10_000_000, math.ceil((order.epochs or 0) * dataset.samples / max(1, batch)))


def _seed(federation: FederationRecord, order: FederationIn, device: DeviceRecord) -> int:
    """Of a device's training: by its name, so that the same federation elsewhere trains the same."""
    text = f"{order.seed}/{federation.round}/{device.name}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:6], "big")
