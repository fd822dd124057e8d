"""The deployment that a test suffers on: one at a time, kept for the tests of its kind."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.faults import story
from tests.faults.story import Stage
from tests.faults.surroundings import Kind


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Kind], Stage]]:
    with ExitStack() as stack:
        made: list[Stage] = []

        def give(kind: Kind) -> Stage:
            if not made or made[-1].kind is not kind:
                stack.close()
                made.append(stack.enter_context(story.stage(tmp_path_factory.mktemp(kind), kind)))
            return made[-1]

        yield give
