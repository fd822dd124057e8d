"""Campaigns go on when a test says so, and not by the service's own loop, which would be in the middle at times."""

import pytest

from pock_server.runner import background


@pytest.fixture(autouse=True)
def _only_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "fulfil", lambda services, duties: None)
