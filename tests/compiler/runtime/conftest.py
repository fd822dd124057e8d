"""The toy model's executable, and a way to run it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import save_file

from pockengine.targets import get
from tests.compiler.runtime.toy import Toy

TOY = Toy()


@dataclass(frozen=True)
class Done:
    """How a run ended: exit code, events of standard output, the sentence on standard error."""

    code: int
    events: list[dict[str, Any]]
    sentence: str

    @property
    def losses(self) -> list[float]:
        return [event["loss"] for event in self.events if event["event"] == "step"]

    @property
    def report(self) -> dict[str, Any]:
        return dict(self.events[-1]["report"])


Run = Callable[..., Done]


@pytest.fixture(scope="session")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TOY.build(tmp_path_factory.mktemp("toy"), get("host"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.safetensors"
    save_file(TOY.dataset(), path)
    return path


@pytest.fixture
def run(executable: Path, tmp_path: Path) -> Run:
    def run(*arguments: object, binary: Path = executable, prefix: tuple[str, ...] = (), **options: Any) -> Done:
        command = [*prefix, str(binary), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, **options)
        return Done(done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr.strip())

    return run
