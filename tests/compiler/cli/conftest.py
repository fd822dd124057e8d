"""Searches of tests share what they observe."""

from collections.abc import Iterator

import pytest

from tests.compiler.search.observations import observe_once


@pytest.fixture(scope="session", autouse=True)
def observations() -> Iterator[None]:
    """See `observe_once`."""
    with pytest.MonkeyPatch.context() as patch:
        observe_once(patch)
        yield
