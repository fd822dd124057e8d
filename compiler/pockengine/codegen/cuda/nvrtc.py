"""CUDA C++ to a GPU's machine code, by NVIDIA's compiler library NVRTC. Needs no GPU.

The library comes with the package `nvidia-cuda-nvrtc-cu12`, the extra `cuda`; its interface is that of the NVRTC
documentation 12.9."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...errors import ToolchainError

PACKAGE = "nvidia-cuda-nvrtc-cu12"
_WARNING = r"^ptxas (?:warning|info *: \(C\d+\)).*$"


@dataclass(frozen=True)
class Compiled:
    """A kernel's machine code, and what the compiler says of it.

    image         what the driver loads (a cubin)
    registers     of a thread
    shared_bytes  of a block
    spill_bytes   that a thread writes because registers do not suffice
    warnings      of the assembler, those among them that it calls information: products that wait for each other"""

    image: bytes
    registers: int
    shared_bytes: int
    spill_bytes: int
    warnings: tuple[str, ...]


def version() -> str:
    """The library's version, as its package states it. ToolchainError where it is not installed."""
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        raise ToolchainError(
            "CUDA kernels are compiled by NVIDIA's NVRTC, which is not installed: pip install 'pockengine[cuda]'"
        ) from None


def compile(text: str, options: Sequence[str]) -> Compiled:
    """Machine code of a text with one kernel. ToolchainError has the compiler's first complaint."""
    library, program = _library(), ctypes.c_void_p()
    _checked(library, library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None))
    try:
        given = [option.encode() for option in (*options, "--ptxas-options=-v")]
        code = library.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given))
        said = _read(library, "ProgramLog", program).rstrip(b"\0").decode(errors="replace")
        if code:
            first = re.search(r"^.*\b(?:error|fatal)\b.*$", said, re.MULTILINE)
            raise ToolchainError(first[0] if first else said.strip()[-500:] or f"NVRTC ended with {code}")
        return Compiled(_read(library, "CUBIN", program), *_told(said), tuple(re.findall(_WARNING, said, re.MULTILINE)))
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _told(said: str) -> tuple[int, int, int]:
    """Registers, bytes of shared memory, spilled bytes, from the assembler's report."""

    def number(pattern: str) -> int:
        found = re.search(pattern, said)
        return int(found[1]) if found else 0

    return number(r"Used (\d+) registers"), number(r"(\d+) bytes smem"), number(r"(\d+) bytes spill stores")


def _read(library: Any, what: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _checked(library, getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    content = ctypes.create_string_buffer(size.value)
    _checked(library, getattr(library, f"nvrtcGet{what}")(program, content))
    return content.raw


def _checked(library: Any, code: int) -> None:
    if code:
        raise ToolchainError(f"NVRTC: {library.nvrtcGetErrorString(code).decode()}")


@cache
def _library() -> Any:
    found, spec = version(), find_spec("nvidia.cuda_nvrtc")
    for folder in spec.submodule_search_locations or () if spec else ():
        for path in sorted(Path(folder, "lib").glob("libnvrtc.so.*")):
            library = ctypes.CDLL(str(path))
            library.nvrtcGetErrorString.restype = ctypes.c_char_p
            return library
    raise ToolchainError(f"{PACKAGE} {found} has no libnvrtc.so: install it again")
