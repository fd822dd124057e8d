"""Celery in a build worker ends by an error it does not know: it is started again, a few times in a row."""

import threading
import time
from typing import Any

import pytest
from celery import Celery
from celery.worker import state

from pock_server.broker import working


class Controller:
    """Ends at once, one time because the worker stops."""

    started = 0
    stops_at = 0

    def __init__(self, **options: Any) -> None:
        assert options["pool"] == "threads"

    def start(self) -> None:
        type(self).started += 1
        if self.started == self.stops_at:
            state.should_stop = 0


@pytest.mark.parametrize(
    ("stops_at", "short_life", "started"),
    [(2, 10.0, 2), (100, 10.0, 5), (7, 0.0, 7)],
    ids=["stops", "ends early", "ends late"],
)
def test_celery_is_started_again(
    stops_at: int, short_life: float, started: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "WorkController", Controller)
    pauses: list[float] = []
    monkeypatch.setattr(working, "_pause", pauses.append)
    monkeypatch.setattr(working, "_SHORT_LIFE_SECONDS", short_life)
    monkeypatch.setattr(state, "should_stop", None)
    monkeypatch.setattr(Controller, "started", 0)
    monkeypatch.setattr(Controller, "stops_at", stops_at)
    working._consume(Celery("pock", set_as_current=False), 1)
    assert Controller.started == started
    assert pauses == [2.0 ** min(number, 4) if short_life else 1.0 for number in range(1, started)]


def test_a_pause_ends_when_the_worker_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "should_stop", None)
    began = time.monotonic()
    threading.Timer(0.2, setattr, (state, "should_stop", 0)).start()
    working._pause(60)
    assert time.monotonic() - began < 10
