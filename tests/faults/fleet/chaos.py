"""Troubles at random moments for a while, with people who go on asking for runs; then everything is mended."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.faults.actor import FINAL, WAIT, Person
from tests.faults.fleet.troubles import TROUBLES, Scene, Struck

_STEPS = (5, 60, 400)
_SEEDS = 4
RETRIES = {"transient": 10, "crashed": 10, "disk_full": 10, "device_lost": 10, "timeout": 10, "verification": 3}
"""So often a run may fail by what is done to its device. Nothing else may make one fail."""
_QUEUE_SECONDS = 7200


@dataclass(frozen=True)
class Wish:
    """What runs are of."""

    build: str
    train: str
    held_out: str
    devices: tuple[str, ...]

    def order(self, dice: random.Random, device: str) -> dict[str, Any]:
        """Any run on the device."""
        return {
            "build_id": self.build,
            "device_id": device,
            "dataset_id": self.train,
            "eval_dataset_id": self.held_out if dice.random() < 0.3 else None,
            "steps": dice.choice(_STEPS),
            "seed": dice.randrange(_SEEDS),
            "threads": 1,
            "save_weights": dice.random() < 0.3,
            "priority": dice.randrange(3),
            "retries": RETRIES,
            "retry_delay_seconds": 1,
            "queue_deadline_seconds": _QUEUE_SECONDS,
        }


@dataclass
class Asking:
    """Keeps a run open for every fifth device, and three at least, until it is ended."""

    person: Person
    wish: Wish
    dice: random.Random
    ordered: list[str] = field(default_factory=list)
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> "Asking":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _ask(self) -> None:
        try:
            open_runs: list[str] = []
            while not self._ending.wait(0.1):
                if len(open_runs) >= max(3, len(self.wish.devices) // 5):
                    open_runs = [run for run in open_runs if self.person.get(f"/runs/{run}")["state"] not in FINAL]
                    continue
                device = self.dice.choice(self.wish.devices)
                run = self.person.order("/runs", self.wish.order(self.dice, device))["id"]
                open_runs.append(run)
                self.ordered.append(run)
        except BaseException as error:
            self.error = error


def rage(scene: Scene, seconds: float, pause: float, say: Callable[[str], None]) -> Counter[str]:
    """Have troubles strike for so long, one each `pause` seconds on average; all is mended at the end. How often each
    struck."""
    names, often = list(TROUBLES), [trouble.often for trouble in TROUBLES.values()]
    counts, lasting = Counter[str](), dict[str, tuple[float, Struck]]()
    following = time.monotonic()
    ends = following + seconds
    try:
        while (now := time.monotonic()) < ends:
            for part in [part for part, (until, _) in lasting.items() if until <= now]:
                _mend(lasting, part)
            if now >= following:
                following = now + scene.dice.expovariate(1 / pause)
                name = scene.dice.choices(names, often)[0]
                if TROUBLES[name].part not in lasting:
                    struck = TROUBLES[name].strike(scene)
                    lasting[TROUBLES[name].part] = time.monotonic() + struck.seconds, struck
                    say(f"{name}: {struck.what} {struck.seconds:.0f} s")
                    counts[name] += 1
            for _, struck in lasting.values():
                struck.watch()
            time.sleep(0.05)
    finally:
        mended = time.monotonic() + WAIT
        while lasting and time.monotonic() < mended:
            for part in list(lasting):
                _mend(lasting, part)
    assert not lasting, f"not mended: {', '.join(lasting)}"
    return counts


def _mend(lasting: dict[str, tuple[float, Struck]], part: str) -> None:
    """End a trouble, or have it tried again in a second."""
    _, struck = lasting.pop(part)
    if struck.mend() is False:
        lasting[part] = time.monotonic() + 1, struck
