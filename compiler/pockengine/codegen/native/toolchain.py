"""Compiles and links C for a target with `zig cc`, which cross-compiles to every target from one pip package.

Knows flags, files and processes; nothing of graphs or kernels. Every object goes through the cache, so a kernel is
compiled once per target, whichever model it belongs to. Output depends only on the inputs: no path, time or build id
gets in.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache as remember
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from pockengine.codegen.folder_cache import default_folder, platform_folder
from pockengine.codegen.object_cache import Inputs, ObjectCache
from pockengine.errors import ToolchainError
from pockengine.targets import Target
from pockengine.targets.processor import ZIG

Progress = Callable[[int, int], None]
"""Called with (objects ready, objects wanted) as compilation goes on."""

ZIG_FOLDER = "/"
"""Where zig is run. The key of a C library has the paths of its sources, and zig names those below its working
directory from there: whoever runs it in another folder builds the C library again, for most of a minute."""

RUNTIME = Path(str(files("pockengine.codegen.native") / "runtime"))
"""The runtime's C sources."""

_COMMON = (
    "-std=gnu11", "-g0", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections",
    "-fno-stack-protector", "-fno-sanitize=undefined", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables",
    "-Wall", "-Wextra", "-Werror",
)  # fmt: skip
_KERNEL = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-Wno-unused-parameter")
_HOSTED = ("-O2", "-Wconversion", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes")
_TABLES = ("-O1",)

_FOLDER = "{folder}"
_SOURCE, _OBJECT = "unit.c", "unit.o"

_LIBRARY_ONLY = ("library.c",)
_EXECUTABLE_ONLY = (
    "main.c", "job.c", "train.c", "validate.c", "evaluate.c", "bench.c", "generate.c", "options.c", "checkpoint.c",
    "dataset.c", "feed.c", "order.c", "split.c",
)  # fmt: skip
_MEASURING = ("core.c", "threads.c", "error.c", "files.c", "device.c", "events.c")
"""What every measuring program has of the runtime."""
_STATIC = {"linux": ("-static",), "macos": ()}
_LIBRARIES = ("-lpthread", "-lm")
_DYNAMIC = {"linux": (*_LIBRARIES, "-ldl"), "macos": _LIBRARIES}


@dataclass(frozen=True)
class Objects:
    """Compiled kernels by symbol, and how many of them the cache had."""

    paths: Mapping[str, Path]
    cache_hits: int


@dataclass(frozen=True)
class DeviceRuntime:
    """The runtime's part for kernels that do not run on the processor: `sources` and headers by file name, `device.c`
    among them; what has the name of a file of the runtime is linked in its place. It loads the device's driver when it
    starts, so programs are linked for the system's own C library."""

    sources: Mapping[str, str]

    @classmethod
    def of(cls, backend: str) -> DeviceRuntime:
        """The files of the folder `runtime` in a backend's package."""
        folder = Path(str(files(backend) / "runtime"))
        return cls({path.name: path.read_text("utf-8") for path in sorted(folder.iterdir())})


@dataclass(frozen=True)
class _Unit:
    """One translation unit to compile: what to call it in errors, and everything its object depends on."""

    name: str
    source: str
    headers: Mapping[str, str]
    triple: str
    cpu: str
    flags: tuple[str, ...]
    one_of_many: bool = False
    """A kernel: clang is run directly, as `zig cc` runs it. The programs are the same."""

    @property
    def options(self) -> tuple[str, ...]:
        """All that clang is told of it but its places."""
        return ("-target", self.triple, f"-mcpu={self.cpu}", *self.flags)

    def inputs(self) -> Inputs:
        return {
            "source": self.source,
            "triple": self.triple,
            "cpu": self.cpu,
            "flags": " ".join(self.flags),
            "zig": zig_version(),
            **{f"header {name}": text for name, text in self.headers.items()},
        }


@remember
def zig_cache() -> Path:
    """Where zig keeps the C libraries it builds, unless `ZIG_GLOBAL_CACHE_DIR` says. Each installation of zig has its
    own: two that share one take each other's C library for outdated and build it again and again."""
    return platform_folder() / "zig" / hashlib.sha256(str(ZIG.resolve()).encode()).hexdigest()[:16]


@remember
def zig_version() -> str:
    """Version of the C compiler, as its package states it."""
    return metadata.version("ziglang")


def compile_objects(
    sources: Mapping[str, str], target: Target, cache: Path | None = None, progress: Progress | None = None
) -> Objects:
    """Compiles kernels (symbol -> complete C source) for a target, in as many processes as there are cores.

    `cache` is the folder of compiled objects (default: `POCK_CACHE_DIR`, or the platform's). Raises ToolchainError
    naming the kernel that does not compile.
    """
    units = [_kernel_unit(symbol, source, target) for symbol, source in sources.items()]
    paths, hits = _compile_all(units, _cache(cache), progress)
    return Objects(dict(zip(sources, paths, strict=True)), hits)


def link(
    objects: Objects,
    model_c: str,
    target: Target,
    cache: Path | None,
    progress: Progress,
    device: DeviceRuntime | None = None,
) -> tuple[bytes, bytes]:
    """The executable and the library, at the same time: each is linked by one thread. Raises ToolchainError."""
    progress(0, 2)
    _compile_all([_tables(model_c, target)], _cache(cache), None)  # part of both
    with ThreadPoolExecutor(2) as workers:
        executable = workers.submit(link_executable, objects, model_c, target, cache, device=device)
        jobs = [executable, workers.submit(link_library, objects, model_c, target, cache, device)]
        for done, _ in enumerate(as_completed(jobs), start=1):
            progress(done, 2)
    return jobs[0].result(), jobs[1].result()


def link_executable(
    objects: Objects,
    model_c: str,
    target: Target,
    cache: Path | None = None,
    symbols: bool = False,
    device: DeviceRuntime | None = None,
) -> bytes:
    """The target's training program: kernels, the model's tables, the hosted runtime; static where possible. `symbols`
    keeps the functions' names, for whoever takes the machine code apart."""
    triple = target.triple if device is None else _system_triple(target)
    runtime = _runtime(triple, target, _LIBRARY_ONLY, device)
    linked = _STATIC[target.os] if device is None else _DYNAMIC[target.os]
    flags = ("-Wl,--gc-sections", *linked, *(() if symbols else ("-s",)))
    return _link(objects, [_tables(model_c, target), *runtime], target, triple, flags, _cache(cache))


def link_library(
    objects: Objects, model_c: str, target: Target, cache: Path | None = None, device: DeviceRuntime | None = None
) -> bytes:
    """The same model as a shared library with the functions of model.h, for the C library that most systems have."""
    triple = _system_triple(target)
    runtime = _runtime(triple, target, _EXECUTABLE_ONLY, device)
    name = library_name(target)
    named = ("-Wl,-soname," if target.os == "linux" else "-Wl,-install_name,@rpath/") + name
    flags = ("-s", "-shared", named, "-Wl,--gc-sections", *(_LIBRARIES if device is None else _DYNAMIC[target.os]))
    return _link(objects, [_tables(model_c, target), *runtime], target, triple, flags, _cache(cache))


def link_measurement(
    objects: Objects,
    tables_c: str,
    own: Mapping[str, str],
    target: Target,
    cache: Path | None = None,
    runtime: tuple[str, ...] = (),
    device: DeviceRuntime | None = None,
) -> bytes:
    """The program that measures kernels on a target: kernels, tables and the sources and headers `own` (by file name),
    over the runtime's core, threads and device, and what else it names of the runtime's sources."""
    flags = (*_COMMON, *_HOSTED, *_tiles(target))
    texts = {path.name: path.read_text("utf-8") for path in sorted(RUNTIME.glob("*.h"))}
    texts |= {name: (RUNTIME / name).read_text("utf-8") for name in (*_MEASURING, *runtime)}
    texts |= {**own, **(device.sources if device else {})}
    headers = {name: text for name, text in texts.items() if name.endswith(".h")}
    sources = {name: text for name, text in texts.items() if name.endswith(".c")}
    triple = target.triple if device is None else _system_triple(target)
    units = [_Unit(name, text, headers, triple, target.mcpu, flags) for name, text in sources.items()]
    linker = ("-s", "-Wl,--gc-sections", *(_STATIC[target.os] if device is None else _DYNAMIC[target.os]))
    units.insert(0, _tables(tables_c, target, headers))
    return _link(objects, units, target, triple, linker, _cache(cache))


def kernel_flags(target: Target) -> str:
    """What kernels are compiled with for a target: the key of whatever was learned by running them."""
    return " ".join((target.triple, target.mcpu, *_COMMON, *_KERNEL, *vector_flags(target)))


def vector_flags(target: Target) -> tuple[str, ...]:
    """clang splits vectors of 512 bits in two on CPU models it takes for slow at them (Ice Lake, Rocket Lake, as which
    it knows newer ones too) unless told the width: half the arithmetic a cycle on those with two wide multipliers."""
    return (f"-mprefer-vector-width={8 * target.vector_bytes}",) if target.arch == "x86_64" else ()


def library_name(target: Target) -> str:
    """`libmodel.so`, or as the target's system spells it."""
    return "libmodel.dylib" if target.os == "macos" else "libmodel.so"


def library_header() -> str:
    """The C header of the library."""
    return (RUNTIME / "model.h").read_text("utf-8")


def prepare(target: Target, cache: Path | None = None) -> None:
    """Builds what the first program for a target needs beside its kernels: zig's C libraries for it (some 40 s each
    architecture) and the runtime. Later builds find them."""
    nothing = Objects({}, 0)
    empty = '#include "pock.h"\nconst pock_model pock_model_data = {.name = "empty"};\n'
    link_executable(nothing, empty, target, cache)
    link_library(nothing, empty, target, cache)


def _kernel_unit(symbol: str, source: str, target: Target) -> _Unit:
    flags = (*_COMMON, *_KERNEL, *vector_flags(target))
    return _Unit(symbol, source, {}, target.triple, target.mcpu, flags, one_of_many=True)


def _system_triple(target: Target) -> str:
    """The target with its system's own C library: glibc 2.17 or newer on Linux."""
    return f"{target.arch}-linux-gnu.2.17" if target.os == "linux" else target.triple


def _runtime(triple: str, target: Target, without: tuple[str, ...], device: DeviceRuntime | None) -> list[_Unit]:
    """The hosted runtime's units but those in `without`."""
    paths = [*sorted(RUNTIME.glob("*.[ch]"))]
    texts = {path.name: path.read_text("utf-8") for path in paths} | dict(device.sources if device else {})
    headers = {name: text for name, text in texts.items() if name.endswith(".h")}
    flags = (*_COMMON, *_HOSTED, *_tiles(target))
    return [
        _Unit(name, text, headers, triple, target.mcpu, flags)
        for name, text in sorted(texts.items())
        if name.endswith(".c") and name not in without
    ]


def _tables(model_c: str, target: Target, headers: Mapping[str, str] | None = None) -> _Unit:
    """The unit of a program's tables, which sees `headers`; default: pock.h."""
    headers = headers or {"pock.h": (RUNTIME / "pock.h").read_text("utf-8")}
    return _Unit("model.c", model_c, headers, target.triple, target.mcpu, (*_COMMON, *_TABLES))


def _link(
    objects: Objects, units: list[_Unit], target: Target, triple: str, flags: tuple[str, ...], cache: ObjectCache
) -> bytes:
    """Kernels and other units together, for the system `triple`."""
    made, _ = _compile_all(units, cache, None)
    inputs = [*(objects.paths[symbol] for symbol in sorted(objects.paths)), *made]
    with cache.workspace() as folder:
        output = folder / "linked"
        listed = folder / "objects.rsp"
        listed.write_text("\n".join(f'"{path}"' for path in inputs), "utf-8")
        # No -mcpu: it would only make zig build the C library again for each CPU, which takes most of a minute.
        command = ["-target", triple, "-O2", *flags, f"@{listed}", "-o", str(output)]
        failure = _failure([str(ZIG), "cc", *command], folder)
        if failure:
            raise ToolchainError(f"the program for {target.name} does not link: {failure}")
        return output.read_bytes()


def _compile_all(units: list[_Unit], cache: ObjectCache, progress: Progress | None) -> tuple[list[Path], int]:
    """Objects of the units, in order, and the number of cache hits."""
    found = [cache.find(unit.inputs()) for unit in units]
    missing = [index for index, path in enumerate(found) if path is None]
    hits = len(units) - len(missing)
    if progress:
        progress(hits, len(units))
    for options in {units[index].options for index in missing if units[index].one_of_many}:
        _clang(options)  # asked once, not by each thread
    with ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as workers:
        jobs = {workers.submit(_compile, units[index], cache): index for index in missing}
        try:
            for done, job in enumerate(as_completed(jobs), start=hits + 1):
                found[jobs[job]] = job.result()
                if progress:
                    progress(done, len(units))
        except ToolchainError:
            workers.shutdown(cancel_futures=True)
            raise
    return [path for path in found if path is not None], hits


def _compile(unit: _Unit, cache: ObjectCache) -> Path:
    with cache.workspace() as folder:
        (folder / _SOURCE).write_text(unit.source, "utf-8")
        for name, text in unit.headers.items():
            (folder / name).write_text(text, "utf-8")
        words = _clang(unit.options) if unit.one_of_many else None
        command = [word.replace(_FOLDER, str(folder)) for word in words or _zig_cc(unit.options)]
        failure = _failure(command, folder)
        if failure:
            raise ToolchainError(f"'{unit.name}' does not compile for {unit.cpu}: {failure}")
        return cache.store(unit.inputs(), folder / _OBJECT)


def _zig_cc(options: tuple[str, ...]) -> tuple[str, ...]:
    """The command that compiles a unit, with `_FOLDER` for the folder where it lies."""
    source, made = f"{_FOLDER}{os.sep}{_SOURCE}", f"{_FOLDER}{os.sep}{_OBJECT}"
    return (str(ZIG), "cc", *options, f"-ffile-prefix-map={_FOLDER}=.", "-c", source, "-o", made)


@remember
def _clang(options: tuple[str, ...]) -> tuple[str, ...] | None:
    """The command that `zig cc` itself runs for such a unit, as it tells when asked; None where it does not tell. It
    takes a third of a small kernel's time to work that out, and to link the object that comes of it into another."""
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / _SOURCE).touch()
        told = _run([word.replace(_FOLDER, str(folder)) for word in _zig_cc(options)], folder, ZIG_VERBOSE_CC="1")
    if told.returncode or re.search(r"\s", f"{folder}{ZIG.resolve()}"):  # zig puts nothing between quotes
        return None
    words = next((line.split(" ") for line in told.stderr.splitlines() if " clang " in line), [])
    if not {"-o", "-MD", "-MV", "-MF"} <= set(words):
        return None
    words[words.index("-o") + 1] = f"{folder}{os.sep}{_OBJECT}"
    place = words.index("-MF")  # a list of the headers, which nobody reads
    words = [word for word in (*words[:place], *words[place + 2 :]) if word not in ("-MD", "-MV")]
    return tuple(word.replace(str(folder), _FOLDER) for word in words)


def _failure(command: list[str], folder: Path) -> str | None:
    """What a command complains of first, or None."""
    done = _run(command, folder)
    if done.returncode == 0:
        return None
    said = done.stderr.replace(f"{folder}{os.sep}", "")
    first = re.search(r"^.*\berror: .*$", said, re.MULTILINE)
    return first[0] if first else said.strip()[-500:] or f"zig ended with status {done.returncode}"


def _run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs zig with its scratch in `folder`. Every path is absolute."""
    places = {
        "ZIG_GLOBAL_CACHE_DIR": os.path.abspath(os.environ.get("ZIG_GLOBAL_CACHE_DIR") or zig_cache()),
        "ZIG_LOCAL_CACHE_DIR": str(folder / "zig"),
        "SOURCE_DATE_EPOCH": "0",
    }
    together = {**os.environ, **places, **environment}
    return subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=ZIG_FOLDER, env=together)


def _tiles(target: Target) -> tuple[str, ...]:
    """Tells the runtime that kernels use AMX tiles."""
    return ("-DPOCK_TILES",) if target.uses_tiles else ()


def _cache(folder: Path | None) -> ObjectCache:
    return ObjectCache((folder or default_folder()).absolute())
