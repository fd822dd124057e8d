"""An operator who brings one release of the agent after the other to the fleet; every second one is broken."""

import itertools
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from pock_client import Client
from pock_client.asynchronous.updates import MOVING
from pock_client.errors import PockClientError
from tests.agent.update.fleet import Break, file_of, in_run, unreadable
from tests.faults.deployment import SERVER, Deployment
from tests.faults.fleet.beside import Beside
from tests.faults.fleet.boards import FIRST_VERSION

_BROKEN: tuple[Break, ...] = (in_run("raise RuntimeError('no')"), unreadable, in_run("time.sleep(1e6)"))
_ROLLOUT_SECONDS = 180.0
_PATIENCE = 600.0
_SETTLE_SECONDS = 300.0
_LOOK_SECONDS = 1.0


class Releasing(Beside):
    """`ended`: in which states rollouts ended; one that takes too long is cancelled."""

    def __init__(self, deployment: Deployment, folder: Path, devices: int) -> None:
        super().__init__()
        self.ended = Counter[str]()
        self._deployment, self._folder, self._devices = deployment, folder, devices
        self._good = {FIRST_VERSION}
        self._client = Client(deployment.url, deployment.key, patience=_PATIENCE)

    def work(self) -> None:
        """One rollout after the other."""
        for number in itertools.count(2):
            broken = _BROKEN[number // 2 % len(_BROKEN)] if number % 2 else None
            self._roll_out(f"0.{number}.0", broken)
            if self.ending.wait(_LOOK_SECONDS):
                return

    def _roll_out(self, version: str, broken: Break | None) -> None:
        folder = self._folder / version
        folder.mkdir(parents=True)
        file = file_of(folder / "pock-agent.pyz", version, broken)
        self._sign(file)
        if broken is None:
            self._good.add(version)
        few = max(1, self._devices // 20)
        rollout = self._client.rollouts.create(
            release=self._client.agent_releases.push(file).id,
            on="*",
            canary=few,
            stages=[30, 100],
            healthy_seconds=5,
            check_in_seconds=60,
            max_failed=few,
        )
        ends = time.monotonic() + _ROLLOUT_SECONDS
        while (state := self._client.rollouts.get(rollout.id).state) in MOVING:
            if time.monotonic() > ends or self.ending.wait(_LOOK_SECONDS):
                break
        self.ended[f"{'good' if broken is None else 'broken'}: {'cancelled' if state in MOVING else state}"] += 1
        with suppress(PockClientError):  # it is over at this moment; a cut does not end a cancelling
            self._client.rollouts.cancel(rollout.id)

    def _sign(self, file: Path) -> None:
        """The command may find no database."""
        ends = time.monotonic() + _PATIENCE
        while True:
            try:
                self._deployment.command(*SERVER, "agent-release", "sign", str(file))
                return
            except AssertionError:
                if time.monotonic() > ends:
                    raise
                time.sleep(_LOOK_SECONDS)

    def hold(self) -> None:
        """Every device runs a release that is not broken."""
        ends = time.monotonic() + _SETTLE_SECONDS
        while wrong := self._wrong():
            assert time.monotonic() < ends, f"these devices run broken releases: {wrong}"
            time.sleep(_LOOK_SECONDS)

    def _wrong(self) -> dict[str, str | None]:
        versions = {one.name: one.agent_version for one in self._client.devices.list()}
        return {name: version for name, version in versions.items() if version not in self._good}
