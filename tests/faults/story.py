"""The story that every fault interrupts: an upload, a build, a run; whatever happens, it comes to its good end."""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.agent import fake_model
from tests.faults import law
from tests.faults.actor import WAIT, Person
from tests.faults.deployment import Deployment, deployed
from tests.faults.faults import ALWAYS, FAULTS, Fault, pause_builder
from tests.faults.proxy import Proxy, Trap
from tests.faults.surroundings import Kind, surroundings

_TRIES = 30
"""Builds that fail while a fault lasts, as when a disk is full, are asked for again so often."""
_HEARD_SECONDS = 90.0
_MOMENTS = {
    "upload": (b"PATCH /v1/uploads/", 3),
    "finish": (b"PATCH /v1/uploads/", 4),
    "order": (b"POST /v1/builds ", 1),
    "run": (b"POST /v1/runs ", 1),
    "weights": (b"PUT /v1/agent/blobs/", 1),
    "lease": (b"/lease HTTP/1.1", 2),
    "report": (b"/result HTTP/1.1", 1),
}
"""When clients send these bytes for the so-manieth time; "build" (it runs) and "queued" (nobody takes it, and its
message is in the broker) are seen otherwise."""
_COMMITS = {
    "part": b"uploads/",
    "blob": b"upload.finish",
    "model": b"model.create",
    "order": b"build.request",
    "artifact": b"bin/model",
    "run": b"run.request",
    "report": b"step_ms",
}
"""Transactions, by what is in their parameters."""
COMMITS = tuple(_COMMITS)
"""Transactions whose commit nobody may hear of."""
TABLE = {
    kind: [(name, moment) for name, fault in faults.items() for moment in fault.moments]
    for kind, faults in FAULTS.items()
}
"""Faults and moments."""
MORE = {
    kind: [
        (name, moment) for name, fault in faults.items() if fault.moments == ALWAYS for moment in ("finish", "order")
    ]
    for kind, faults in FAULTS.items()
}
"""Moments that resemble others."""


@dataclass(frozen=True)
class Stage:
    """What a story needs and does not make itself."""

    kind: Kind
    deployment: Deployment
    device: str
    dataset: str


@contextmanager
def stage(folder: Path, kind: Kind) -> Iterator[Stage]:
    """A deployment with a device at work, and a dataset."""
    with surroundings(kind, folder) as around, deployed(folder, around) as deployment:
        person = Person(deployment)
        digest = person.upload(fake_model.dataset({}))
        dataset = str(person.order("/datasets", {"name": "told", "digest": digest})["id"])
        device = deployment.enrol()
        deployment.mechanic.submit(deployment.start_device).result()
        yield Stage(kind, deployment, device, dataset)


def suffer(stage: Stage, name: str, moment: str) -> None:
    """Tell the story while the fault strikes at the moment; then the law holds."""
    place = _MOMENTS.get(moment)
    arm = None if place is None else partial(_on_request, stage.deployment.clients, *place)
    _interrupted(stage, FAULTS[stage.kind][name], arm, moment)


def lose_commit(stage: Stage, what: str) -> None:
    """Tell the story while a transaction is committed, and the connection breaks before anybody hears of it."""
    proxy, after = stage.deployment.around.networks["database"], _COMMITS[what]
    fault = FAULTS[Kind.SERVERS]["network to database cut"]
    _interrupted(stage, fault, lambda strike: proxy.set(Trap(b"COMMIT", strike, unanswered=True, after=after)), what)


def _on_request(proxy: Proxy, pattern: bytes, nth: int, strike: Callable[[], None]) -> None:
    proxy.set(Trap(pattern, strike, nth))


def _interrupted(stage: Stage, fault: Fault, arm: Callable[[Callable[[], None]], None] | None, moment: str) -> None:
    """`arm` has the fault strike at its moment; None: the story does, while the build waits or runs."""
    deployment = stage.deployment
    before, mending = len(deployment.log()), list[Future[None]]()

    def strike() -> None:
        fault.strike(deployment)
        mending.append(deployment.mechanic.submit(_mend_later, fault, deployment, before))

    if arm is not None:
        arm(strike)
    person = Person(deployment)
    try:
        _tell(stage, person, strike if arm is None else lambda: None, moment)
        assert mending, "the moment never came"
    finally:
        for each in mending:
            each.result()
    law.hold(deployment, person)
    assert _says(deployment, fault, before), f"no line of the log says {fault.words!r}"


def _mend_later(fault: Fault, deployment: Deployment, before: int) -> None:
    time.sleep(fault.seconds)
    ends = time.monotonic() + _HEARD_SECONDS
    while fault.heard and not _says(deployment, fault, before) and time.monotonic() < ends:
        time.sleep(0.1)
    fault.mend(deployment)


def _says(deployment: Deployment, fault: Fault, before: int) -> bool:
    """Whether the log has the fault's words since it was so long."""
    return re.search(fault.words, deployment.log()[before:]) is not None


def _tell(stage: Stage, person: Person, strike: Callable[[], None], moment: str) -> None:
    deployment, model = stage.deployment, person.model()
    if moment == "queued":
        pause_builder(deployment)
    build = person.build(model)
    if moment == "queued":
        _until_rung(deployment)
        strike()
    if moment == "build":
        deployment.worker()
        strike()
    for _ in range(_TRIES):
        if person.until(f"/builds/{build['id']}", "succeeded", "failed")["state"] == "succeeded":
            break
        time.sleep(0.2)
        build = person.build(model)
    person.until(f"/builds/{build['id']}", "succeeded")
    run = person.run(build["id"], stage.device, stage.dataset)
    person.until(f"/runs/{run['id']}", "succeeded")


def _until_rung(deployment: Deployment) -> None:
    assert deployment.around.broker is not None
    ends = time.monotonic() + WAIT
    while not deployment.around.broker.client.llen("pock-builds"):
        assert time.monotonic() < ends, "the broker has no message"
        time.sleep(0.05)
