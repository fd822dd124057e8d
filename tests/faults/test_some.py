"""One fault of each sort, for every change; `test_faults.py` has all."""

from collections.abc import Callable

import pytest

from tests.faults import story
from tests.faults.story import Stage
from tests.faults.surroundings import Kind
from tests.sweeps import some

_SOME = (
    (Kind.SERVERS, "api killed", "upload"),
    (Kind.SERVERS, "worker killed", "build"),
    (Kind.SERVERS, "device killed", "report"),
    (Kind.SERVERS, "database killed", "lease"),
    (Kind.SERVERS, "store killed", "build"),
    (Kind.SERVERS, "network to database cut", "build"),
    (Kind.SERVERS, "network to clients stalled", "upload"),
    (Kind.SERVERS, "clock of the service wrong by -3600 s", "run"),
    (Kind.WORKERS, "broker killed", "order"),
    (Kind.WORKERS, "broker emptied", "queued"),
    (Kind.WORKERS, "builder killed for memory", "build"),
    (Kind.EMBEDDED, "disk full", "upload"),
)


def test_a_commit_that_nobody_hears_of_is_no_second_outcome(stage: Callable[[Kind], Stage]) -> None:
    story.lose_commit(stage(Kind.SERVERS), "order")


@pytest.mark.parametrize("kind, name, moment", some(_SOME, 4))
def test_every_request_has_one_outcome(stage: Callable[[Kind], Stage], kind: Kind, name: str, moment: str) -> None:
    story.suffer(stage(kind), name, moment)
