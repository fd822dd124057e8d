"""Faults at moments of a story; afterwards the law holds (`law.py`). `python -m tests.faults` tries many more."""

from collections.abc import Iterator

import pytest

from tests.faults import story
from tests.faults.story import Stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with story.stage(tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.mark.parametrize("name, moment", story.TABLE)
def test_every_request_has_one_outcome(name: str, moment: str, stage: Stage) -> None:
    story.suffer(stage, name, moment)


@pytest.mark.parametrize("what", story.COMMITS)
def test_a_commit_that_nobody_hears_of_is_no_second_outcome(what: str, stage: Stage) -> None:
    story.lose_commit(stage, what)
