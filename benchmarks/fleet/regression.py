"""What the detector of slowdowns does with noise that this machine made: false alarms, and how soon it finds 5 %.

    python -m benchmarks.fleet.regression                                  # with the noise that lies here
    python -m benchmarks.fleet.regression --record 500 --noise noise.json  # record first (about 6 minutes), then show

The recorded benchmarks are all of one step, so every alarm is false. They are replayed as they came, backwards, and in
random orders; a slowdown is made by multiplying what comes after a random moment.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fleet.noise import record
from pock_server.benchmarks.verdict import Repeat, judge
from pock_server.regressions.detection import LATEST, PER_ALARM, WINDOW, Point, find_slowdown

NOISE = Path(__file__).with_name("noise.json")
REPEATS, STEPS = 7, 100
SLOWER = 1.05
_BEFORE = 30
_SEEN = 2 * (WINDOW + LATEST)

Series = Sequence[float | None]
"""The median of each benchmark in milliseconds; None where it is not stable."""


def read(path: Path) -> list[float | None]:
    """The recorded benchmarks as the service would judge them."""
    series = list[float | None]()
    for medians in json.loads(path.read_text())["microseconds"]:
        verdict = judge([Repeat(one / 1000, None, None, None, None, None, None, None) for one in medians], False)
        series.append(verdict.median_ms if verdict.stable else None)
    return series


def alarms(series: Series) -> list[int]:
    """After which of the benchmarks, from 0, an alarm comes."""
    found, seen = list[int](), list[Point]()
    for place, median in enumerate(series):
        if median is None:
            continue
        seen = [*seen[-_SEEN:], Point("device", median)]
        slowdown = find_slowdown(seen)
        if slowdown is not None:
            found.append(place)
            seen = seen[slowdown.since :]
    return found


def false_alarms(series: Series, orders: int, chance: random.Random) -> dict[str, float]:
    """False alarms for each 200 benchmarks, by the order in which they come."""
    shuffled: list[Series] = [chance.sample(series, len(series)) for _ in range(orders)]
    each: dict[str, list[Series]] = {
        "as they came": [series],
        "backwards": [series[::-1]],
        "in random orders": shuffled,
    }
    return {
        name: PER_ALARM * sum(len(alarms(one)) for one in some) / sum(len(one) for one in some)
        for name, some in each.items()
    }


def delays(series: Series, trials: int, chance: random.Random, factor: float = SLOWER) -> list[int | None]:
    """How many benchmarks after a slowdown it was found; None where it was not within twice `LATEST`."""
    found = list[int | None]()
    for trial in range(trials):
        start = chance.randrange(len(series) - _BEFORE - 2 * LATEST)
        part = list(series[start : start + _BEFORE + 2 * LATEST])
        if trial % 2:
            part = list(chance.sample(series, len(part)))
        slow = [None if one is None else one * factor for one in part[_BEFORE:]]
        after = [place - _BEFORE + 1 for place in alarms([*part[:_BEFORE], *slow]) if place >= _BEFORE]
        found.append(after[0] if after else None)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 1 where it finds too little, or raises false alarms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=int, metavar="N", help="record N benchmarks first")
    parser.add_argument("--noise", type=Path, default=NOISE, help="the file of the recorded benchmarks")
    parser.add_argument("--orders", type=int, default=20, help="random orders (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=400, help="slowdowns (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    if chosen.record:
        record(chosen.noise, chosen.record, REPEATS, STEPS)
    series, chance = read(chosen.noise), random.Random(0)
    told = [one for one in series if one is not None]
    spread = statistics.stdev(told) / statistics.mean(told)
    print(f"{len(series)} benchmarks, {len(series) - len(told)} unstable; {min(told):.3f} to {max(told):.3f} ms,")
    print(f"standard deviation {spread:.1%}")
    wrong = false_alarms(series, chosen.orders, chance)
    for name, count in wrong.items():
        print(f"false alarms in {PER_ALARM} benchmarks, {name}: {count:.2f}")
    found = delays(series, chosen.trials, chance)
    soon = [one for one in found if one is not None and one <= LATEST]
    median = statistics.median(soon) if soon else float("nan")
    print(
        f"{SLOWER - 1:.0%} slower: {len(soon)} of {len(found)} found in {LATEST} benchmarks, the median in {median:.0f}"
    )
    return 0 if max(wrong.values()) < 1 and len(soon) >= 0.95 * len(found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
