"""What must hold when everything is mended: each run that was asked for has one outcome, and each device works."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from pock_server.runs.failures import class_of
from tests.faults.actor import FINAL, WAIT, Person
from tests.faults.deployment import Deployment
from tests.faults.fleet.chaos import RETRIES, Asking, Wish
from tests.faults.law import STALE, ask, settled

_SETTLE_SECONDS = 600.0


@dataclass(frozen=True)
class Outcome:
    """`tries`: how many runs were made of those that were asked for. `failures`: of tries, by class."""

    runs: int
    tries: int
    interrupted: int
    failures: Counter[str]
    settled_seconds: float


class _Broken:
    """What does not hold: the rest is looked at all the same, as another half hour tells less."""

    def __init__(self) -> None:
        self.errors: list[AssertionError] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Notes what a check says, and goes on."""
        try:
            yield
        except AssertionError as error:
            self.errors.append(error)

    def refuse(self) -> None:
        """Raises an ExceptionGroup of all, if there are any."""
        if self.errors:
            raise ExceptionGroup(f"{len(self.errors)} parts of the law do not hold", self.errors)


def hold(deployment: Deployment, asking: Asking) -> Outcome:
    """All of it; an ExceptionGroup of AssertionErrors names what does not hold."""
    person, began, broken = asking.person, time.monotonic(), _Broken()
    runs = [_chain(person, run) for run in asking.ordered]
    seconds = time.monotonic() - began
    for request in (one for one in person.accepted if one.path == "/runs"):
        with broken.noted():
            again = person.ask("POST", request.path, json=request.body, headers={"Idempotency-Key": request.key})
            assert (again.status_code, again.json()) == (request.status, request.answer), request
    failures = Counter[str]()
    wholes = list[tuple[dict[str, Any], dict[int, float]]]()
    for chain in runs:
        for number, run in enumerate(chain):
            with broken.noted():
                _ended_once(deployment, run)
                if number < len(chain) - 1:
                    failures[_class(run)] += 1
        with broken.noted():
            wholes.append((chain[-1], _whole(person, chain[-1])))
    with broken.noted():
        _alike(wholes)
    for what, query in STALE.items():
        with broken.noted():
            assert settled(partial(ask, deployment, query)) == [], what
    with broken.noted():
        _devices_work(person, asking.wish)
    broken.refuse()
    attempts = sum(run["attempt"] - 1 for chain in runs for run in chain)
    return Outcome(len(runs), sum(map(len, runs)), attempts, failures, seconds)


def _chain(person: Person, ident: str) -> list[dict[str, Any]]:
    """The run and its further tries, all over."""
    found, ends = [], time.monotonic() + _SETTLE_SECONDS
    following: str | None = ident
    while following is not None:
        while (run := person.get(f"/runs/{following}"))["state"] not in FINAL:
            assert time.monotonic() < ends, f"run {following} is still {run['state']}"
            time.sleep(0.2)
        found.append(run)
        following = run["retried_by"]
    assert found[-1]["state"] == "succeeded", found[-1]["failure"]
    return found


def _class(run: dict[str, Any]) -> str:
    assert run["state"] == "failed", run
    found = str(class_of(run["failure"]["code"]))
    assert found in RETRIES, run["failure"]
    return found


def _ended_once(deployment: Deployment, run: dict[str, Any]) -> None:
    query = "SELECT data ->> 'state' FROM events WHERE subject_id = :it AND kind = 'state' ORDER BY seq"
    states = [state for state in ask(deployment, query, run["id"]) if state in FINAL]
    assert states == [run["state"]], (run["id"], states)


def _whole(person: Person, run: dict[str, Any]) -> dict[int, float]:
    """Its steps are there once, each with its loss, and what it was to bring back. Of a training that went on at a
    checkpoint those may be missing that the agent, when it was killed, had not read of: the last before that."""
    losses = [(step["step"], step["loss"]) for step in person.get(f"/runs/{run['id']}/steps")["items"]]
    steps = [step for step, _ in losses]
    missing = sorted(set(range(1, run["steps"] + 1)) - set(steps))
    went_on = run["report"]["train"].get("resumed_at") or 0
    assert steps == sorted(set(steps)) and len(steps) + len(missing) == run["steps"], (run["id"], steps)
    assert missing == list(range(went_on - len(missing) + 1, went_on + 1)), (run["id"], missing, went_on)
    assert (run["weights_digest"] is not None) == run["save_weights"]
    return dict(losses)


def _alike(runs: Sequence[tuple[dict[str, Any], dict[int, float]]]) -> None:
    """Runs of one seed have the same loss at each step, and weights, bit for bit, however often they were
    interrupted."""
    losses, weights = defaultdict[Any, set[Any]](set), defaultdict[Any, set[Any]](set)
    for run, by_step in runs:
        key = run["steps"], run["seed"]
        for step, loss in by_step.items():
            losses[*key, step].add(loss)
        if len(by_step) == run["steps"]:
            losses[key].add(tuple(run["report"]["train"]["loss"]))
        if run["weights_digest"]:
            weights[key].add(run["weights_digest"])
    for found in (losses, weights):
        assert all(len(values) == 1 for values in found.values()), {key: len(values) for key, values in found.items()}


def _devices_work(person: Person, wish: Wish) -> None:
    """Each device carries out one more run, though nobody has touched it."""
    last = {"build_id": wish.build, "dataset_id": wish.train, "steps": 5, "priority": 100}
    runs = {device: person.order("/runs", {**last, "device_id": device})["id"] for device in wish.devices}
    ends = time.monotonic() + WAIT + 2 * len(runs)
    for device, run in runs.items():
        while (found := person.get(f"/runs/{run}"))["state"] not in FINAL:
            assert time.monotonic() < ends, f"device {device} does not work: its run is {found['state']}"
            time.sleep(0.2)
        assert found["state"] == "succeeded", (device, found["failure"])
