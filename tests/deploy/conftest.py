"""docker-compose.yml, as docker-compose reads it."""

import shutil
from typing import Any

import pytest

from tests.deploy.containers import read_compose


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The file as docker-compose reads it."""
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is not installed (Debian: apt-get install docker-compose)")
    return read_compose(POCK_SITE="localhost")
