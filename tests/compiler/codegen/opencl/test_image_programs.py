"""Programs whose kernels read images: where the device has none, or too short ones, they read buffers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.numpy import save_file

from pockengine.compile import compile
from pockengine.targets import get
from tests.compiler.codegen.opencl.library import needs_device
from tests.compiler.codegen.opencl.test_binaries import Made, made
from tests.compiler.codegen.opencl.test_trouble import TRAIN, library
from tests.compiler.training.test_runs import EVERYTHING, Program, dataset, tokens

__all__ = ["library", "made"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """For this machine's processor, and kernels as for a GPU that reads images quicker."""
    folder = tmp_path_factory.mktemp("images")
    save_file(dataset(19, 1), folder / "d.st")
    target = replace(get("host"), gpu=get("snapdragon-8-gen-3-gpu").gpu)
    return Program(compile(tokens(masked=True), EVERYTHING, target, threads=1, backend="opencl"), folder)


@pytest.mark.parametrize(
    "trouble, found",
    [("images", ["images"]), ("", []), ("short images", []), ("no images after all", [])],
)
def test_what_the_device_has_is_used(
    made: Made, monkeypatch: pytest.MonkeyPatch, trouble: str, found: list[str]
) -> None:
    monkeypatch.setenv("FAKE", trouble)
    assert made() == ["text", *found]


def test_what_was_compiled_is_kept_apart(made: Made, kernel_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for trouble in ("images", ""):
        monkeypatch.setenv("FAKE", trouble)
        assert made()[0] == "text"
    assert len(list(kernel_cache.iterdir())) == 2


@needs_device
def test_a_run_is_that_from_buffers(program: Program, kernel_cache: Path) -> None:
    buffers = compile(tokens(masked=True), EVERYTHING, get("host"), threads=1, backend="opencl")
    losses = []
    for number, one in enumerate((program, Program(buffers, program.folder))):
        events = one.run(*TRAIN)
        losses.append([event["loss"] for event in events if event["event"] == "step"])
        assert len(list(kernel_cache.iterdir())) == number + 1
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
