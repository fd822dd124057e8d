"""Faults at moments of a story; afterwards the law holds (`law.py`). All of them: `make faults`."""

from collections.abc import Callable

import pytest

from tests.faults import story
from tests.faults.story import Stage
from tests.faults.surroundings import Kind


@pytest.mark.parametrize("what", story.COMMITS)
def test_a_commit_that_nobody_hears_of_is_no_second_outcome(stage: Callable[[Kind], Stage], what: str) -> None:
    story.lose_commit(stage(Kind.SERVERS), what)


@pytest.mark.parametrize("kind, name, moment", [(kind, *row) for kind in Kind for row in story.TABLE[kind]])
def test_every_request_has_one_outcome(stage: Callable[[Kind], Stage], kind: Kind, name: str, moment: str) -> None:
    story.suffer(stage(kind), name, moment)
