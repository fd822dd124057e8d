"""The story that every fault interrupts: an upload, a build, a run; whatever happens, it comes to its good end."""

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.agent import fake_model
from tests.faults import law
from tests.faults.actor import Person
from tests.faults.deployment import Deployment, deployed
from tests.faults.proxy import Proxy, Trap

_LONG = 3.0
"""Seconds for which the store is away: a shorter time is bridged by repeating, and nobody hears of it."""
_MOMENTS = {
    "upload": (b"PATCH /v1/uploads/", 3),
    "finish": (b"PATCH /v1/uploads/", 4),
    "order": (b"POST /v1/builds ", 1),
    "weights": (b"PUT /v1/agent/blobs/", 1),
    "lease": (b"/lease HTTP/1.1", 2),
    "report": (b"/result HTTP/1.1", 1),
}
"""When clients send these bytes for the so-manieth time; the moment "build" is seen otherwise."""
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
_ALWAYS = ("upload", "build", "lease", "report")
_WITH_STORE = ("upload", "build", "weights")


@dataclass(frozen=True)
class Fault:
    """What breaks, how it is mended after `seconds`, what the log says of it, and when it is of interest."""

    strike: Callable[[Deployment], None]
    mend: Callable[[Deployment], None]
    words: str
    moments: tuple[str, ...] = _ALWAYS
    seconds: float = 0.6


@dataclass(frozen=True)
class Stage:
    """What a story needs and does not make itself."""

    deployment: Deployment
    device: str
    dataset: str


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    """A deployment with a device at work, and a dataset."""
    with deployed(folder) as deployment:
        person = Person(deployment, lambda: None)
        digest = person.upload(fake_model.dataset({}))
        dataset = str(person.order("/datasets", {"name": "told", "digest": digest})["id"])
        device = deployment.enrol()
        deployment.start_device()
        yield Stage(deployment, device, dataset)


def _kill_api(deployment: Deployment) -> None:
    assert deployment.api is not None
    deployment.api.kill()
    deployment.api.wait()


def _kill_device(deployment: Deployment) -> None:
    assert deployment.device is not None
    deployment.device.kill()
    deployment.device.wait()


FAULTS = {
    "api killed": Fault(_kill_api, Deployment.start_api, "this process leads"),
    "worker killed": Fault(Deployment.kill_worker, lambda _: None, "running -> failed", ("build",)),
    "device killed": Fault(_kill_device, Deployment.start_device, "interrupted", ("lease", "report")),
    "database killed": Fault(lambda d: d.postgres.stop(signal.SIGKILL), lambda d: d.postgres.start(), "database"),
    "store killed": Fault(lambda d: d.store.stop(), lambda d: d.store.start(), "store", _WITH_STORE, _LONG),
    "network to database cut": Fault(lambda d: d.to_database.cut(), lambda d: d.to_database.heal(), "database"),
    "network to store cut": Fault(lambda d: d.to_store.cut(), lambda d: d.to_store.heal(), "store", _WITH_STORE, _LONG),
    "network of clients cut": Fault(lambda d: d.clients.cut(), lambda d: d.clients.heal(), "no answer from"),
}
for _whose, _seconds, _said, _moment in (
    ("service", 3600, "the clock jumped", "build"),
    ("device", 3600, "", "lease"),
    ("device", -3600, "", "lease"),
):
    FAULTS[f"clock of the {_whose} wrong by {_seconds} s"] = Fault(
        partial(Deployment.jump, whose=_whose, seconds=_seconds),
        partial(Deployment.jump, whose=_whose, seconds=0),
        _said,
        (_moment,),
        1.5,
    )
TABLE = [(name, moment) for name, fault in FAULTS.items() for moment in fault.moments]
"""Faults and moments."""
MORE = [(name, moment) for name, fault in FAULTS.items() if fault.moments == _ALWAYS for moment in ("finish", "order")]
"""Moments that resemble others."""
COMMITS = tuple(_COMMITS)
"""Transactions whose commit nobody may hear of."""


def suffer(stage: Stage, name: str, moment: str) -> None:
    """Tell the story while the fault strikes at the moment; then the law holds."""
    place = _MOMENTS.get(moment)
    arm = None if place is None else partial(_on_request, stage.deployment.clients, *place)
    _interrupted(stage, FAULTS[name], arm)


def lose_commit(stage: Stage, what: str) -> None:
    """Tell the story while a transaction is committed, and the connection breaks before anybody hears of it."""
    proxy, after = stage.deployment.to_database, _COMMITS[what]
    fault = FAULTS["network to database cut"]
    _interrupted(stage, fault, lambda strike: proxy.set(Trap(b"COMMIT", strike, unanswered=True, after=after)))


def _on_request(proxy: Proxy, pattern: bytes, nth: int, strike: Callable[[], None]) -> None:
    proxy.set(Trap(pattern, strike, nth))


def _interrupted(stage: Stage, fault: Fault, arm: Callable[[Callable[[], None]], None] | None) -> None:
    """`arm` has the fault strike at its moment; None: while the build runs."""
    deployment = stage.deployment
    person = Person(deployment, lambda: law.pass_five_minutes(deployment))
    before = len(deployment.log())
    mending: list[Future[None]] = []

    def strike() -> None:
        fault.strike(deployment)
        mending.append(deployment.mechanic.submit(_mend_later, fault, deployment))

    if arm is not None:
        arm(strike)
    _tell(stage, person, strike if arm is None else None)
    assert mending, "the moment never came"
    mending[0].result()
    law.hold(deployment, person, fault.words, before)


def _mend_later(fault: Fault, deployment: Deployment) -> None:
    time.sleep(fault.seconds)
    fault.mend(deployment)


def _tell(stage: Stage, person: Person, while_building: Callable[[], None] | None) -> None:
    model = person.model()
    build = person.build(model)
    if while_building is not None:
        stage.deployment.worker()
        while_building()
    if person.until(f"/builds/{build['id']}", "succeeded", "failed")["state"] == "failed":
        build = person.build(model)
        person.until(f"/builds/{build['id']}", "succeeded")
    run = person.run(build["id"], stage.device, stage.dataset)
    person.until(f"/runs/{run['id']}", "succeeded")
