"""Programs that a driver compiled are kept for one test, not in the user's cache."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def kernel_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of these programs."""
    monkeypatch.setenv("POCK_KERNEL_CACHE", str(tmp_path / "kernels"))
    return tmp_path / "kernels"
