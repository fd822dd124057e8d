"""Every op is lowered, expanded or refused with a reason by each backend; what is lowered agrees with its reference."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pockengine import ops
from pockengine.codegen import backends
from pockengine.codegen.gpu.launches import kernels_of, measured_blocks
from pockengine.codegen.opencl.text import text_of
from pockengine.ir import Array
from pockengine.targets import get
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary
from tests.compiler.codegen.harness import Case, Library, compare, sample_case
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.codegen.opencl.library import check_all, needs_device
from tests.compiler.codegen.reference.opened import opened
from tests.sweeps import some

REFUSED = {"reshape": "the planner makes it an alias"}
Check = Callable[[list[Case], Path], None]


def _cases() -> list[Case]:
    rng = np.random.default_rng(0)
    primitives = [op for op in ops.all_ops() if op.kind not in ("composite", "region") and op.name not in REFUSED]
    return [sample_case(op.name, sample, rng) for op in primitives for sample in op.samples]


@pytest.mark.parametrize("backend", backends.NAMES)
@pytest.mark.parametrize("op", [op.name for op in ops.all_ops()])
def test_every_op_is_lowered_expanded_or_refused(op: str, backend: str) -> None:
    record, made_by, rng = ops.get(op), backends.get(backend), np.random.default_rng(0)
    reasons = [made_by.unsupported(sample_case(op, sample, rng).node) for sample in record.samples]
    if record.expand is not None:
        assert all(reasons) or record.kind == "composite"  # what is not claimed is expanded
    elif op in REFUSED:
        assert all(reason and op in reason for reason in reasons)
    else:
        assert reasons and not any(reasons), reasons


def _as_machine_code(cases: list[Case], folder: Path) -> None:
    library = Library(folder, cases, get("host"), threads=3, extra=("-O1",))
    for index in range(len(library.cases)):
        for tasks in (1, 2, 3):
            library.check(index, tasks)


def _as_reference(cases: list[Case], folder: Path) -> None:
    """In an artifact's planned memory, with results over operands wherever the backend allows it."""
    for case in cases:
        for pair, outputs in _runs(case, folder):
            compare(case, outputs, f"in place {pair}")


def _runs(case: Case, folder: Path) -> Iterator[tuple[tuple[int, int] | None, list[Array]]]:
    lowered = backends.get("reference").lower(case.node, get("host"), 1)
    for pair in (None, *lowered.inplace):
        machine = opened(case.node, lowered, folder, pair)
        yield pair, list(machine.run("predict", case.inputs).values())


def _on_a_device(cases: list[Case], folder: Path) -> None:
    """Through the runtime, on the OpenCL device that is here, with results over operands wherever that is allowed."""
    lowered = [backends.get("opencl").lower(case.node, get("host"), 1) for case in cases]
    calls = [call for one in lowered for call in one.calls]
    assert text_of(kernels_of(calls), measured_blocks(calls))
    apart(check_all, some(cases, 4), folder)  # the driver takes long to compile each; kernels as CUDA's


def _as_threads_by_turns(cases: list[Case], folder: Path, backend: str) -> None:
    library = EmulatedLibrary(folder, cases, get("host"), threads=1, extra=("-O1",), backend=backend)
    for index in range(len(library.cases)):
        library.check(index, 1)


CHECKS: dict[str, Check] = {
    "c": _as_machine_code,
    "cuda": partial(_as_threads_by_turns, backend="cuda"),
    "emulated": lambda cases, folder: _as_threads_by_turns(some(cases, 4), folder, "emulated"),  # kernels as CUDA's
    "opencl": _on_a_device,
    "reference": _as_reference,
}
NEEDS = {"opencl": needs_device}


@pytest.mark.parametrize("backend", [pytest.param(name, marks=NEEDS.get(name, ())) for name in backends.NAMES])
def test_samples_agree_with_the_reference(backend: str, tmp_path: Path) -> None:
    CHECKS[backend](_cases(), tmp_path)
