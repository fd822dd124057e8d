"""What is deployed: docker-compose.yml as docker-compose reads it, a clean folder, the wheels."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.clean_folder import run
from tests.deploy.containers import read_compose
from tests.deploy.dockerfile import ROOT, WEB_DIST, context_files
from tests.once import made_once


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The file as docker-compose reads it."""
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is not installed (Debian: apt-get install docker-compose)")
    return read_compose(POCK_SITE="localhost")


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an image's context, the dashboard, which `make web` builds with the script of the image, and the
    wheels."""
    return made_once(tmp_path_factory, "context", _fill)


@pytest.fixture(scope="session")
def wheels(clean: Path) -> Path:
    """The wheels, as the images' own script builds them."""
    return clean / "wheels"


def _fill(folder: Path) -> None:
    for name in context_files():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    assert (ROOT / WEB_DIST / "index.html").is_file(), "the dashboard is not built: run `make web`"
    shutil.copytree(ROOT / WEB_DIST, folder / WEB_DIST)
    run(folder, "docker/build-wheels", "wheels")
