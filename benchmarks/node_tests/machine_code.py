"""Runs node tests as machine code: hundreds of cases planned each for itself and compiled together.

Every case is imported, planned and emitted as any model is, with one program, `predict`. What differs is only the
packing: kernels and tables of many cases go into a few translation units, file-level names made distinct, because
starting the C compiler a thousand times would take most of the time. Programs run through the runtime's own core, each
parallel kernel in two shares, in blocks of memory between canaries."""

from __future__ import annotations

import ctypes
import multiprocessing
import re
import subprocess
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from pockengine.codegen.c import Model, Tensor, emit_model, kernel_sources
from pockengine.codegen.toolchain import RUNTIME
from pockengine.compile.stages import Inference, plan_inference
from pockengine.ir import Array, DType, TensorType
from pockengine.plan import aligned
from pockengine.targets import get
from pockengine.targets.machine import ZIG

from .backends import Failure, Verdict, compare, imported
from .cases import Case

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
void run_predict(const pock_model *model, char *const space[POCK_SPACES]) {
    pock_run(model->predict, space, in_two_shares, 0, 0, 0);
}
"""


@dataclass(frozen=True)
class _Planned:
    """A case with its program; `symbol` names its tables."""

    case: Case
    inference: Inference
    symbol: str

    @property
    def space_bytes(self) -> dict[str, int]:
        return {"arena": aligned(self.inference.program.plan.arena_bytes), **self.inference.spaces.sizes}

    def model(self) -> Model:
        """The tables, as `compile/build.py` makes them for a model that is not trained."""
        spaces, graph = self.inference.spaces, self.inference.program.graph
        inputs = tuple(Tensor(value.name, value.type, spaces.places["input", value.name]) for value in graph.inputs)
        consts = tuple(
            Tensor(f"const.{index}", TensorType(DType.of(array.dtype), tuple(array.shape)), location)
            for index, (location, array) in enumerate(spaces.consts.values())
        )
        program = {"predict": self.inference.program}
        return Model(self.case.name, "host", THREADS, 1, (), (), consts, inputs, program, self.space_bytes, 0)


def run_machine_code(cases: Sequence[Case]) -> dict[str, Verdict]:
    """Every case by the C backend."""
    verdicts: dict[str, Verdict] = {}
    planned: list[_Planned] = []
    for index, case in enumerate(cases):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                planned.append(_Planned(case, plan_inference(imported(case), get("host"), THREADS), f"case_{index}"))
        except Exception as error:  # whatever goes wrong, the other cases go on; the table shows it
            verdicts[case.name] = Failure.of(error)
    with tempfile.TemporaryDirectory(prefix="node-tests-") as folder:
        library, failures = _library(planned, Path(folder))
        ready = []
        for one in planned:
            missing = failures.keys() & kernel_sources([one.inference.program]).keys()
            if missing:
                verdicts[one.case.name] = Failure("broken", failures[min(missing)])
            else:
                ready.append(one)
        return verdicts | _run_apart(ready, library)


def _run_apart(planned: Sequence[_Planned], library: ctypes.CDLL) -> dict[str, Verdict]:
    """Runs the programs in a process of their own; when it dies, the next goes on behind the case that killed it."""
    verdicts: dict[str, Verdict] = {}
    fork = multiprocessing.get_context("fork")
    while len(verdicts) < len(planned):
        ours, theirs = fork.Pipe(duplex=False)
        rest = planned[len(verdicts) :]
        worker = fork.Process(target=_report, args=(rest, library, theirs))
        worker.start()
        theirs.close()
        for one in rest:
            try:
                verdicts[one.case.name] = ours.recv()
            except EOFError:
                worker.join()
                verdicts[one.case.name] = Failure("broken", f"the program died (exit code {worker.exitcode})")
                break
        worker.join()
    return verdicts


def _report(planned: Sequence[_Planned], library: ctypes.CDLL, answers: Connection) -> None:
    for one in planned:
        answers.send(_run(one, library))


def _library(planned: Sequence[_Planned], folder: Path) -> tuple[ctypes.CDLL, dict[str, str]]:
    """All kernels and tables as one shared object, and what the compiler said of kernels that it refused."""
    kernels = kernel_sources(one.inference.program for one in planned)
    names = sorted(kernels)
    units = [names[start::UNITS] for start in range(UNITS)]
    with ThreadPoolExecutor(THREADS) as workers:
        compiled = list(workers.map(lambda unit: _compile(unit, kernels, folder), [unit for unit in units if unit]))
    failures = {symbol: message for _, failed in compiled for symbol, message in failed.items()}
    whole = [one for one in planned if not failures.keys() & kernel_sources([one.inference.program]).keys()]
    tables = {one.symbol: emit_model(one.model()).replace("pock_model_data", one.symbol) for one in whole}
    sources = [folder / "tables.c", folder / "driver.c"]
    declarations = "".join(f"extern const pock_model {one.symbol};\n" for one in whole)
    sources[0].write_text(f'#include "pock.h"\n{declarations}{_packed(tables)}')
    sources[1].write_text(_DRIVER)
    objects = [str(path) for paths, _ in compiled for path in paths]
    output = folder / "cases.so"
    listed = folder / "objects.rsp"
    listed.write_text("\n".join([*map(str, sources), str(RUNTIME / "core.c"), *objects]))
    message = _zig([*FLAGS, f"-I{RUNTIME}", "-shared", "-o", str(output), f"@{listed}"])
    assert message is None, message
    return ctypes.CDLL(str(output)), failures


def _compile(names: Sequence[str], kernels: Mapping[str, str], folder: Path) -> tuple[list[Path], dict[str, str]]:
    """Object files of some kernels; when the compiler refuses them, each half is tried for itself."""
    source = folder / f"{names[0]}_{len(names)}.c"
    source.write_text(_packed({name: kernels[name] for name in names}))
    made = source.with_suffix(".o")
    message = _zig([*FLAGS, "-mcpu=native", "-c", "-o", str(made), str(source)])
    if message is None:
        return [made], {}
    if len(names) == 1:
        return [], {names[0]: f"the kernel does not compile: {message}"}
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


def _zig(arguments: Iterable[str]) -> str | None:
    """Runs the C compiler; its first complaint, or None."""
    done = subprocess.run([str(ZIG), "cc", *arguments], capture_output=True, text=True, errors="replace")
    if done.returncode == 0:
        return None
    return next((line for line in done.stderr.splitlines() if "error:" in line), done.stderr[-300:])


def _run(one: _Planned, library: ctypes.CDLL) -> Verdict:
    blocks = _Blocks(one)
    model = ctypes.c_char.in_dll(library, one.symbol)
    library.run_predict(ctypes.byref(model), blocks.addresses())
    if not blocks.intact():
        return Failure("broken", "wrote outside its memory")
    program = one.inference.program
    found = [
        blocks.read(program.locations[value].space, program.locations[value].offset, value.type)
        for value in program.outputs.values()
    ]
    return compare(one.case, found)


class _Blocks:
    """The five blocks of memory of a program, each between canaries, with constants and inputs in their places."""

    def __init__(self, one: _Planned) -> None:
        self.sizes = one.space_bytes
        self.raw = {name: np.full(size + 2 * CANARY + 64, 0x5A, np.uint8) for name, size in self.sizes.items()}
        self.start = {name: CANARY + (-(raw.ctypes.data + CANARY)) % 64 for name, raw in self.raw.items()}
        spaces = one.inference.spaces
        for location, array in spaces.consts.values():
            self.write("const", location.offset, array)
        for name, array in one.case.feeds.items():
            self.write("input", spaces.places["input", name].offset, array)

    def write(self, space: str, offset: int, array: Array) -> None:
        start = self.start[space] + offset
        self.raw[space][start : start + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def read(self, space: str, offset: int, type: TensorType) -> Array:
        start = self.start[space] + offset
        return self.raw[space][start : start + type.nbytes].view(type.dtype.numpy).reshape(type.shape).copy()

    def addresses(self) -> ctypes.Array[ctypes.c_void_p]:
        places = [raw.ctypes.data + self.start[name] for name, raw in self.raw.items()]
        return (ctypes.c_void_p * len(places))(*places)

    def intact(self) -> bool:
        return all(
            bool((raw[: self.start[name]] == 0x5A).all() and (raw[self.start[name] + self.sizes[name] :] == 0x5A).all())
            for name, raw in self.raw.items()
        )
