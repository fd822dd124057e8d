"""The worker's own description of the compiler has generations of GPUs, and the service takes them as targets."""

from __future__ import annotations

import pytest

from pock_server.http.problems import Problem
from pock_server.targets.schemas import TargetOut
from pock_server.targets.service import Compiler
from pock_server.worker.describe import describe


def test_a_generation_of_gpus_is_a_target() -> None:
    version, targets = describe()
    compiler = Compiler(version, tuple(targets))
    found = TargetOut(**compiler.require_target("sm_89"))
    assert "compute capability 8.9" in found.description
    assert len({target["name"] for target in targets}) == len(targets)
    with pytest.raises(Problem, match="did you mean sm_8"):
        compiler.require_target("sm_88")
