"""Troubles at random moments for a while, with people who go on asking for runs; then everything is mended."""

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.faults.actor import FINAL, WAIT, Person
from tests.faults.fleet.beside import Beside
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


class Asking(Beside):
    """Keeps a run open for every fifth device, and three at least."""

    def __init__(self, person: Person, wish: Wish, dice: random.Random) -> None:
        super().__init__()
        self.person, self.wish = person, wish
        self.ordered: list[str] = []
        self._dice = dice

    def work(self) -> None:
        """Order a run as soon as another is over."""
        open_runs: list[str] = []
        while not self.ending.wait(0.1):
            if len(open_runs) >= max(3, len(self.wish.devices) // 5):
                open_runs = [run for run in open_runs if self.person.get(f"/runs/{run}")["state"] not in FINAL]
                continue
            device = self._dice.choice(self.wish.devices)
            run = self.person.order("/runs", self.wish.order(self._dice, device))["id"]
            open_runs.append(run)
            self.ordered.append(run)


def rage(
    scene: Scene, others: Sequence[Beside], seconds: float, pause: float, say: Callable[[str], None]
) -> Counter[str]:
    """Have troubles strike for so long, one each `pause` seconds on average; all is mended at the end. How often each
    struck. What goes wrong in the others ends it."""
    names, often = list(TROUBLES), [trouble.often for trouble in TROUBLES.values()]
    counts, lasting = Counter[str](), dict[str, tuple[float, Struck]]()
    following = time.monotonic()
    ends = following + seconds
    try:
        while (now := time.monotonic()) < ends:
            for other in others:
                other.check()
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
