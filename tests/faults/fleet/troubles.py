"""What befalls a fleet: each trouble strikes some part of it, and says how long and how it is mended."""

import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tests.faults import surroundings
from tests.faults.deployment import Deployment
from tests.faults.fleet.boards import Board, Pool

_HOUR, _DAY = 3600, 86_400
_OBEY_SECONDS = 20.0
"""On a loaded machine an agent reads its owner's file, and its job comes to a checkpoint, within so long."""


@dataclass(frozen=True)
class Scene:
    """What can be struck, and the dice that say what is."""

    deployment: Deployment
    pools: Sequence[Pool]
    dice: random.Random

    def pool(self) -> Pool:
        """Any pool."""
        return self.dice.choice(self.pools)

    def boards(self, share: float) -> list[Board]:
        """About such a share of all boards, and one at least."""
        every = [board for pool in self.pools for board in pool.boards]
        return self.dice.sample(every, max(1, round(share * len(every))))


@dataclass(frozen=True)
class Struck:
    """What was struck; after `seconds`, `mend` ends it, or says False: try again. Until then `watch` sees that it is
    borne as it is to be."""

    what: str
    seconds: float
    mend: Callable[[], object] = lambda: None
    watch: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Trouble:
    """`often`: relative to the others. While one lasts, none strikes the same `part`."""

    part: str
    often: float
    strike: Callable[[Scene], Struck]


def _agents_killed(scene: Scene) -> Struck:
    struck = scene.boards(scene.dice.choice((0.005, 0.02, 0.1)))
    for board in struck:
        board.kill(scene.dice.uniform(0, 15))
    return Struck(f"{len(struck)} boards", 0)


def _network(how: str, scene: Scene) -> Struck:
    pool = scene.pool()
    {"cut": pool.network.cut, "stall": pool.network.stall}[how]()
    return Struck(pool.name, scene.dice.uniform(1, 30), pool.network.heal)


def _disk_full(scene: Scene) -> Struck:
    pool = scene.pool()
    surroundings.fill(pool.disk)
    return Struck(pool.name, scene.dice.uniform(1, 15), partial(surroundings.empty, pool.disk))


def _clocks_wrong(scene: Scene) -> Struck:
    struck = scene.boards(0.05)
    for board in struck:
        board.set_wrong(scene.dice.choice((-_DAY, -_HOUR, -60, 60, _HOUR, _DAY)))

    def mend() -> None:
        for board in struck:
            board.set_wrong(0)

    return Struck(f"{len(struck)} boards", scene.dice.uniform(1, 30), mend)


def _work_forbidden(scene: Scene) -> Struck:
    struck = [board for board in scene.boards(0.05) if board.has_room]
    for board in struck:
        board.forbid()
    obeyed_from = time.monotonic() + _OBEY_SECONDS

    def watch() -> None:
        if time.monotonic() > obeyed_from:
            working = [board.name for board in struck if board.works()]
            assert not working, f"{working} work though their owner forbids it"

    def mend() -> None:
        for board in struck:
            board.allow()

    return Struck(f"{len(struck)} boards", _OBEY_SECONDS + scene.dice.uniform(1, 30), mend, watch)


def _service_killed(scene: Scene) -> Struck:
    scene.deployment.kill_api()
    return Struck("", scene.dice.uniform(0, 5), scene.deployment.try_api)


def _service_clock_wrong(scene: Scene) -> Struck:
    scene.deployment.jump("service", scene.dice.choice((-_HOUR, -60, 60, _HOUR)))
    return Struck("", scene.dice.uniform(1, 20), partial(scene.deployment.jump, "service", 0))


def _database_killed(scene: Scene) -> Struck:
    postgres = scene.deployment.around.postgres
    assert postgres is not None
    postgres.stop(signal.SIGKILL)
    return Struck("", scene.dice.uniform(0, 5), postgres.start)


def _database_cut(scene: Scene) -> Struck:
    network = scene.deployment.around.networks["database"]
    network.cut()
    return Struck("", scene.dice.uniform(0, 5), network.heal)


def _store_killed(scene: Scene) -> Struck:
    store = scene.deployment.around.store
    assert store is not None
    store.stop()
    return Struck("", scene.dice.uniform(0, 5), store.start)


TROUBLES: Mapping[str, Trouble] = {
    "agents killed": Trouble("agents", 6, _agents_killed),
    "network of a pool cut": Trouble("networks", 3, partial(_network, "cut")),
    "network of a pool stalled": Trouble("networks", 2, partial(_network, "stall")),
    "disk of a pool full": Trouble("disks", 2, _disk_full),
    "clocks of boards wrong": Trouble("clocks", 3, _clocks_wrong),
    "work forbidden by owners": Trouble("owners", 2, _work_forbidden),
    "service killed": Trouble("service", 1, _service_killed),
    "clock of the service wrong": Trouble("clock of the service", 0.3, _service_clock_wrong),
    "database killed": Trouble("database", 0.5, _database_killed),
    "network to the database cut": Trouble("database", 0.5, _database_cut),
    "store killed": Trouble("store", 0.5, _store_killed),
}
