"""What well-known libraries execute for the matrix products of a step: Eigen and OpenBLAS, for the same processor.

They get matrices as they like them best: neither the unfolding of images into matrices nor bias, activation or
optimizer, which our kernels do in the same pass, are part of what they are charged for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.raspberry_pi.emulator import executions, instructions
from benchmarks.raspberry_pi.pipeline import Processor
from benchmarks.raspberry_pi.steps import Shape
from benchmarks.raspberry_pi.tools import CACHE, unpacked
from benchmarks.zig import zig
from pockengine.targets import get

Count = Callable[[Mapping[Shape, int], Processor], int]
_BLAS = ("libopenblas0-pthread", "libgfortran5", "libgcc-s1", "libc6")
_HERE = Path(__file__).parent


def eigen(products: Mapping[Shape, int], processor: Processor) -> int:
    """Instructions that Eigen executes for these products on one thread."""
    target = get(processor.target)
    headers = unpacked(("libeigen3-dev",), "arm64") / "usr" / "include" / "eigen3"
    program = CACHE / f"gemm-eigen-{target.cpu}"
    machine = ["-target", target.triple, f"-mcpu={target.mcpu}"]
    flags = ["-O3", "-DNDEBUG", "-DEIGEN_DONT_PARALLELIZE", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]
    made = program.with_suffix(".o")
    _build("c++", [*machine, *flags, f"-I{headers}", "-c", str(_HERE / "gemm_eigen.cpp")], made)
    _build("cc", ["-target", target.triple, "-static", str(made)], program)
    return _count([str(program)], products, {})


def openblas(products: Mapping[Shape, int], processor: Processor) -> int:
    """Instructions that OpenBLAS executes for these products on one thread, with its kernels for this processor."""
    root = unpacked(_BLAS, "arm64")
    library = next(root.glob("usr/lib/**/libopenblas.so.0")).resolve()
    program = CACHE / "gemm-openblas"
    flags = ["-target", "aarch64-linux-gnu.2.36", f"-L{library.parent}", f"-l:{library.name}"]
    _build("cc", ["-O2", *flags, str(_HERE / "gemm_openblas.c")], program)
    settings = {
        "QEMU_LD_PREFIX": str(root),
        "QEMU_SET_ENV": f"LD_LIBRARY_PATH={library.parent}",
        "OPENBLAS_NUM_THREADS": "1",
        "OPENBLAS_CORETYPE": processor.model.replace("-", "").upper(),
    }
    return _count([str(program)], products, settings)


LIBRARIES: Mapping[str, Count] = {"Eigen": eigen, "OpenBLAS": openblas}


def _build(language: str, arguments: list[str], program: Path) -> None:
    if not program.exists():
        zig(language, [*arguments, "-o", str(program)])


def _count(command: list[str], products: Mapping[Shape, int], settings: Mapping[str, str]) -> int:
    """Instructions of the products themselves: each done, less the same with none done."""

    def listed(times: int) -> str:
        return "".join(f"{m} {n} {k} {b * count * times}\n" for (b, m, n, k), count in products.items())

    done, none = (executions(command, settings, listed(times)) for times in (1, 0))
    return instructions(done - none)
