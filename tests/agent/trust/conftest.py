"""An authority over trust documents, and a device that follows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.conftest import Device, enroll
from tests.agent.service_double import (
    ServiceDouble,
)
from tests.agent.trust.authority import Authority


@pytest.fixture
def authority(double: ServiceDouble) -> Authority:
    return Authority(double)


@pytest.fixture
def modern(authority: Authority, double: ServiceDouble, tmp_path: Path) -> Device:
    """A device that got trust document 1 with its enrolment."""
    return enroll(double, tmp_path / "state")
