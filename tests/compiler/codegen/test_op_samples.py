"""Every op of the registry is lowered, expanded or refused with a reason; what is lowered agrees with its reference."""

from pathlib import Path

import numpy as np
import pytest

from pockengine import ops
from pockengine.codegen.c import CBackend
from pockengine.targets import get
from tests.compiler.codegen.harness import Case, Library, sample_case

REFUSED = {"reshape": "the planner makes it an alias"}


def _cases() -> list[Case]:
    rng = np.random.default_rng(0)
    primitives = [op for op in ops.all_ops() if op.kind not in ("composite", "region") and op.name not in REFUSED]
    return [sample_case(op.name, sample, rng) for op in primitives for sample in op.samples]


@pytest.mark.parametrize("op", [op.name for op in ops.all_ops()])
def test_every_op_is_lowered_expanded_or_refused(op: str) -> None:
    record, backend, rng = ops.get(op), CBackend(), np.random.default_rng(0)
    reasons = [backend.unsupported(sample_case(op, sample, rng).node) for sample in record.samples]
    if record.expand is not None:
        assert all(reasons) or record.kind == "composite"  # what is not claimed is expanded
    elif op in REFUSED:
        assert all(reason and op in reason for reason in reasons)
    else:
        assert reasons and not any(reasons), reasons


def test_samples_agree_with_the_reference(tmp_path: Path) -> None:
    library = Library(tmp_path, _cases(), get("host"), threads=3, extra=("-O1",))
    for index in range(len(library.cases)):
        for tasks in (1, 2, 3):
            library.check(index, tasks)
