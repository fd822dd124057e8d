"""An artifact of the hand-written toy model, built once for this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from pockengine.artifact import Artifact
from pockengine.targets import get
from tests.compiler.artifact.toy_artifact import make


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return make(tmp_path_factory.mktemp("toy"), get("host"))


@pytest.fixture
def saved(artifact: Artifact, tmp_path: Path) -> Path:
    path = tmp_path / "toy.pock"
    artifact.save(path)
    return path
