"""Many compiled models as one shared object, and the memory their programs run over.

Starting the C compiler for each kernel of a thousand models would take most of the time: kernels and tables of many
models go into a few translation units, file-level names made distinct. Programs run through the runtime's own core,
each parallel kernel in two shares, in blocks of memory between canaries."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.zig import DoesNotCompile, zig
from pockengine.codegen.model import Model
from pockengine.codegen.native.tables import emit_model, kernel_sources
from pockengine.codegen.native.toolchain import RUNTIME
from pockengine.ir import Array, TensorType
from pockengine.plan.program import Location
from pockengine.plan.space import Space

PROGRAMS = ("train", "eval", "predict", "accumulate")
THREADS = 2
CANARY = 64
UNITS = 12
"""Translation units that the kernels are spread over: several a core, so that none waits long for the last."""

FLAGS = (
    "-std=gnu11", "-O1", "-fPIC", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
    "-fno-sanitize=undefined", "-Wall", "-Wextra", "-Werror",
)  # fmt: skip

_DRIVER = """
#include "pock.h"
static void in_two_shares(void *context, pock_kernel kernel, void *const *arg) {
    (void)context;
    kernel(arg, 0, 2);
    kernel(arg, 1, 2);
}
void run_program(const pock_model *model, int which, char *const space[POCK_SPACES]) {
    const pock_program *const programs[] = {model->train, model->eval, model->predict, model->accumulate};
    pock_run(programs[which], space, in_two_shares, 0, 0, 0);
}
"""


class SharedObject:
    """Models by symbol, compiled into `folder`. `refused` says what the compiler said of kernels that it did not
    accept; models that need one of them are not there."""

    def __init__(self, models: Mapping[str, Model], folder: Path) -> None:
        folder = folder.resolve()
        kernels = kernel_sources(program for model in models.values() for program in model.programs.values())
        names = sorted(kernels)
        units = [names[start::UNITS] for start in range(UNITS)]
        with ThreadPoolExecutor(THREADS) as workers:
            compiled = list(workers.map(lambda unit: _compile(unit, kernels, folder), [unit for unit in units if unit]))
        self.kernels = len(kernels)
        self.refused = {symbol: message for _, failed in compiled for symbol, message in failed.items()}
        whole = {symbol: model for symbol, model in models.items() if self.missing(model) is None}
        tables = {symbol: emit_model(model).replace("pock_model_data", symbol) for symbol, model in whole.items()}
        self.library = _link(tables, [path for paths, _ in compiled for path in paths], folder)

    def missing(self, model: Model) -> str | None:
        """What the compiler said of the first kernel that the model lacks; None where it has all."""
        missing = self.refused.keys() & kernel_sources(model.programs.values()).keys()
        return self.refused[min(missing)] if missing else None

    def init_states(self, symbol: str, memory: Memory) -> None:
        """Gives optimizer states their first contents."""
        self.library.pock_init_states(ctypes.byref(self._table(symbol)), memory.addresses())

    def run(self, symbol: str, program: str, memory: Memory) -> None:
        """One run of a model's program."""
        self.library.run_program(ctypes.byref(self._table(symbol)), PROGRAMS.index(program), memory.addresses())

    def _table(self, symbol: str) -> ctypes.c_char:
        return ctypes.c_char.in_dll(self.library, symbol)


def _link(tables: Mapping[str, str], objects: Sequence[Path], folder: Path) -> ctypes.CDLL:
    declarations = "".join(f"extern const pock_model {symbol};\n" for symbol in tables)
    sources = [folder / "tables.c", folder / "driver.c"]
    sources[0].write_text(f'#include "pock.h"\n{declarations}{_packed(tables)}')
    sources[1].write_text(_DRIVER)
    output, listed = folder / "models.so", folder / "objects.rsp"
    listed.write_text("\n".join(map(str, [*sources, RUNTIME / "core.c", *objects])))
    zig("cc", [*FLAGS, f"-I{RUNTIME}", "-shared", "-o", str(output), f"@{listed}"])
    return ctypes.CDLL(str(output))


def _compile(names: Sequence[str], kernels: Mapping[str, str], folder: Path) -> tuple[list[Path], dict[str, str]]:
    """Object files of some kernels; when the compiler refuses them, each half is tried for itself."""
    source = folder / f"{names[0]}_{len(names)}.c"
    source.write_text(_packed({name: kernels[name] for name in names}))
    made = source.with_suffix(".o")
    try:
        zig("cc", [*FLAGS, "-mcpu=native", "-c", "-o", str(made), str(source)])
        return [made], {}
    except DoesNotCompile as error:
        if len(names) == 1:
            return [], {names[0]: f"the kernel does not compile: {error}"}
    half = len(names) // 2
    first, second = _compile(names[:half], kernels, folder), _compile(names[half:], kernels, folder)
    return first[0] + second[0], first[1] | second[1]


def _packed(sources: Mapping[str, str]) -> str:
    """Several translation units as one: the file-level names of each get its own ending."""
    parts = []
    for number, text in enumerate(sources.values()):
        own = "|".join(sorted(_file_level_names(text)))
        parts.append(re.sub(rf"(?<![.\w])({own})\b", rf"\1_{number}", text) if own else text)
    return "\n".join(parts)


_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
_STATIC = re.compile(r"^static\b[^;{}()=]*?\b(\w+)\s*(?:\[[^\]]*\]\s*)?[(=]", re.MULTILINE)
_TYPEDEF = re.compile(r"^typedef\b[^;]*?\b(\w+)\s*;", re.MULTILINE)


def _file_level_names(text: str) -> set[str]:
    bare = _ATTRIBUTE.sub("", text)
    return {*_STATIC.findall(bare), *_TYPEDEF.findall(bare)}


class Memory:
    """The five blocks of memory of a model, each between canaries, full of garbage."""

    def __init__(self, sizes: Mapping[Space, int]) -> None:
        self.sizes = sizes
        self.raw = {name: np.full(size + 2 * CANARY + 64, 0x5A, np.uint8) for name, size in sizes.items()}
        self.start = {name: CANARY + (-(raw.ctypes.data + CANARY)) % 64 for name, raw in self.raw.items()}

    def write(self, place: Location, array: Array) -> None:
        start = self.start[place.space] + place.offset
        self.raw[place.space][start : start + array.nbytes] = np.asarray(array, order="C").reshape(-1).view(np.uint8)

    def read(self, place: Location, type: TensorType) -> Array:
        start = self.start[place.space] + place.offset
        return self.raw[place.space][start : start + type.nbytes].view(type.dtype.numpy).reshape(type.shape).copy()

    def addresses(self) -> ctypes.Array[ctypes.c_void_p]:
        places = [raw.ctypes.data + self.start[name] for name, raw in self.raw.items()]
        return (ctypes.c_void_p * len(places))(*places)

    def intact(self) -> bool:
        """Whether nothing was written beside a block."""
        return all(
            bool((raw[: self.start[name]] == 0x5A).all() and (raw[self.start[name] + self.sizes[name] :] == 0x5A).all())
            for name, raw in self.raw.items()
        )
