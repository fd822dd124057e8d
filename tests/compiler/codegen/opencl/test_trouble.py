"""What the program says where a device cannot do its work: one sentence, before anything starts if it can be known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import save_file

from pockengine.codegen.opencl.build import device_runtime
from pockengine.compile import compile
from pockengine.targets import get
from tests.compiler.training.test_runs import EVERYTHING, Program, dataset, tokens

FAKE = Path(__file__).with_name("fake_opencl.c")
TRAIN = ("train", "--data", "d.st", "--steps", 3)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = tmp_path_factory.mktemp("trouble")
    save_file(dataset(19, 1), folder / "d.st")
    return Program(compile(tokens(masked=True), EVERYTHING, threads=1, backend="opencl"), folder)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a library of OpenCL that has troubles."""
    folder = tmp_path_factory.mktemp("fake")
    (folder / "opencl.h").write_text(device_runtime().sources["opencl.h"])
    _link(folder, FAKE, "-Wall", "-Wextra", "-Werror", f"-I{folder}")
    return folder


def _link(folder: Path, source: Path, *options: str) -> None:
    triple = f"{get('host').arch}-linux-gnu.2.17"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", triple, "-shared", "-fPIC", *options]
    library = str(folder / "libOpenCL.so.1")
    done = subprocess.run([*command, str(source), "-o", library], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "trouble, code, part",
    [
        ("empty", 1, "no device: install the GPU's driver"),
        ("small", 5, "Fake GPU has 1099511.6 MB and gives at most 0.0 MB at once: compile with a smaller batch"),
        ("narrow", 1, "Fake GPU runs fewer than 256 threads a block"),
        ("taken", 5, "Fake GPU does not take the model's memory (OpenCL error -4)"),
        ("refuses", 1, "Fake GPU does not compile the kernels: error: no such thing"),
        ("full", 1, "has no place for the kernel k_"),
        ("lost", 1, "the step's results are lost; resume from the last checkpoint"),
    ],
)
def test_each_trouble_is_one_sentence(
    program: Program, library: Path, monkeypatch: pytest.MonkeyPatch, trouble: str, code: int, part: str
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("FAKE", trouble)
    done = program.call(*TRAIN, "--save", f"{trouble}.st")
    assert (done.returncode, part in done.stderr) == (code, True), done.stderr
    assert done.stderr.count("\n") == 1 and not (program.folder / f"{trouble}.st").exists()


def test_a_library_that_lacks_a_function_is_named(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty.c"
    empty.write_text("int nothing;\n")
    _link(tmp_path, empty)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    done = program.call(*TRAIN)
    assert done.returncode == 1 and "the OpenCL library lacks clGetPlatformIDs" in done.stderr
