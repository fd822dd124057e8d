"""The stage of the chaos: a service with a build, and pools of agents."""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.small_model import RECIPE, make_files
from tests.faults.actor import WAIT, Person
from tests.faults.deployment import Deployment, deployed
from tests.faults.fleet import law
from tests.faults.fleet.boards import pools
from tests.faults.fleet.chaos import Asking, Wish, rage
from tests.faults.fleet.releasing import Releasing
from tests.faults.fleet.troubles import Scene
from tests.faults.law import ask
from tests.faults.surroundings import Kind, surroundings

_POOLS = 8
_SERVICE = {
    "POCK_WORKER_COMMAND": json.dumps([sys.executable, "-m", "pock_server.worker"]),
    "POCK_BUILD_LEASE_SECONDS": "60",
    "POCK_LEASE_SECONDS": "300",
    "POCK_HEARTBEAT_SECONDS": "5",
    "POCK_SWEEP_SECONDS": "2",
    "POCK_UPLOAD_PART_BYTES": str(8 << 20),
}


@dataclass(frozen=True)
class Plan:
    """How many agents, for how long, which dice, and how often something happens."""

    agents: int
    seconds: float
    seed: int
    pause: float


@dataclass(frozen=True)
class Account:
    """How often each trouble struck, how rollouts ended, and what became of the runs."""

    struck: Counter[str]
    rollouts: Counter[str]
    runs: law.Outcome


def perform(folder: Path, plan: Plan, say: Callable[[str], None]) -> Account:
    """Raise everything, rage, mend, and see that the law holds."""
    with surroundings(Kind.SERVERS, folder) as around, deployed(folder, around, **_SERVICE) as deployment:
        person = Person(deployment)
        build, train, held_out = _ordered(person, folder)
        sizes = [len(range(first, plan.agents, _POOLS)) for first in range(min(_POOLS, plan.agents))]
        with pools(deployment, folder, sizes, _tokens(person)) as fleet:
            devices = tuple(board.id for pool in fleet for board in pool.boards)
            say(f"{len(devices)} agents in {len(fleet)} pools")
            _await_sessions(deployment)
            asking = Asking(person, Wish(build, train, held_out, devices), random.Random(plan.seed))
            scene = Scene(deployment, fleet, random.Random(plan.seed + 1))
            with asking, Releasing(deployment, folder / "releases", plan.agents) as releasing:
                struck = rage(scene, (asking, releasing), plan.seconds, plan.pause, say)
            say("all is mended")
            outcome = law.hold(deployment, asking)
            releasing.hold()
            return Account(struck, releasing.ended, outcome)


def _ordered(person: Person, folder: Path) -> tuple[str, str, str]:
    """A build and two datasets."""
    files = make_files(folder)
    model = person.order("/models", {"name": "small", "digest": person.upload(files.model.read_bytes())})["id"]
    order = {"model_id": model, "recipe": RECIPE, "target": "host", "threads": 1}
    build = str(person.order("/builds", order)["id"])
    data = [
        str(person.order("/datasets", {"name": path.stem, "digest": person.upload(path.read_bytes())})["id"])
        for path in (files.train, files.held_out)
    ]
    person.until(f"/builds/{build}", "succeeded")
    return build, data[0], data[1]


def _await_sessions(deployment: Deployment) -> None:
    """Until every agent has come up once."""
    ends = time.monotonic() + WAIT
    while silent := ask(deployment, "SELECT name FROM devices WHERE session_id IS NULL"):
        assert time.monotonic() < ends, f"{len(silent)} agents have not come up, {silent[0]} among them"
        time.sleep(1)


def _tokens(person: Person) -> Iterator[str]:
    while True:
        yield str(person.order("/enrollment-tokens", {})["token"])
