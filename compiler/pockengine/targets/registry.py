"""What the compiler knows of a device: one TOML file each, read into an immutable `Target`. Knows nothing of graphs."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cache
from importlib import resources
from typing import Any

from pockengine.errors import TargetError, nearest
from pockengine.targets import machine, processor
from pockengine.targets.gpu import GENERATIONS, Gpu, gpu_of

_OPERATING_SYSTEMS = ("linux", "macos")
COMPUTE = ("f32", "bf16", "f16", "tf32")
"""Number formats in which contractions may multiply."""
NONE: frozenset[str] = frozenset()
_MULTIPLIES = {"bf16": frozenset(("amx_bf16", "avx512bf16", "bf16")), "f16": frozenset(("fp16fml",)), "tf32": NONE}
"""CPU features of which one gives products of a format that are added up in f32; of tf32, none."""


USUAL_BACKEND = "c"
"""Makes programs for processors."""
HOST_MEMORY = "ram"
"""The memory that every device has: its processor's own."""
ALIGNMENT = 64
"""Of memories that say nothing else: a cache line, and the widest vector register of any target."""
LEAST_ALIGNMENT, MOST_ALIGNMENT = 16, 4096
"""Twice the widest element, and the smallest page: blocks of memory begin on pages."""


@dataclass(frozen=True)
class Memory:
    """A memory in which tensors can lie.

    nbytes     its size
    alignment  every tensor begins at a multiple of this many bytes"""

    name: str
    nbytes: int
    alignment: int = ALIGNMENT


@dataclass(frozen=True)
class Target:
    """One device.

    triple, cpu, features   what a C compiler is told (`-target triple -mcpu=cpu+feature-feature`)
    cores                   cores worth giving a thread to
    vector_bytes, registers width and number of the vector registers
    mr, nr                  rows and columns (f32 elements) of the matrix micro-kernel
    ram_bytes, l1_bytes, l2_bytes   memory, and first and second level data cache per core
    accelerators            what else computes there, by the memory that it has to itself
    compute                 the format in which contractions multiply, of COMPUTE; no property of the device, but of
                            what is built for it (see `computing`)
    ram_alignment           every tensor in the processor's memory begins at a multiple of this many bytes
    gpu                     its GPU, where kernels can be made for it
    backend                 what makes programs for it, where nothing else is asked for
    """

    name: str
    description: str
    triple: str
    cpu: str
    features: tuple[str, ...]
    os: str
    cores: int
    ram_bytes: int
    vector_bytes: int
    registers: int
    mr: int
    nr: int
    l1_bytes: int
    l2_bytes: int
    accelerators: tuple[Memory, ...] = ()
    compute: str = "f32"
    ram_alignment: int = ALIGNMENT
    gpu: Gpu | None = None
    backend: str = USUAL_BACKEND

    @property
    def arch(self) -> str:
        """First part of the triple: `x86_64`, `aarch64`."""
        return self.triple.partition("-")[0]

    @property
    def mcpu(self) -> str:
        """The CPU as the C compiler's `-mcpu` takes it: `cortex_a72-aes-sha2`."""
        return self.cpu + "".join(self.features)

    @property
    def all_features(self) -> frozenset[str]:
        """The features of the CPU model too."""
        return processor.read(self.triple, self.mcpu).features

    @property
    def uses_tiles(self) -> bool:
        """Whether what is built for it multiplies in AMX tiles, for which the system must be asked."""
        return self.compute in ("f32", "bf16") and "amx_bf16" in self.all_features

    def without_tiles(self) -> Target:
        """This device, were its processor one without AMX, whose model may have it."""
        rest = frozenset(feature for feature in self.all_features if not feature.startswith("amx_"))
        return replace(self, features=processor.Processor(self.cpu, rest).spelled(self.triple))

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats of COMPUTE in which this device multiplies: its processor or its GPU."""
        own = self.gpu.formats if self.gpu is not None else ()
        return tuple(name for name in COMPUTE if name in own or name in self.processor_formats)

    @property
    def processor_formats(self) -> tuple[str, ...]:
        """Those of its processor."""
        return tuple(name for name in COMPUTE if name not in _MULTIPLIES or _MULTIPLIES[name] & self.all_features)

    def computing(self, name: str) -> Target:
        """This device with contractions that multiply in a format of COMPUTE and add up in f32. TargetError where it
        has no instruction for that."""
        if name not in COMPUTE:
            raise TargetError(f"contractions cannot compute in '{name}'{nearest(name, COMPUTE)}")
        if name != "f32" and name not in self.formats:
            raise TargetError(
                f"the target '{self.name}' has no {name} products that are added up in f32: choose "
                f"{' or '.join(self.formats)} with --compute"
            )
        return replace(self, compute=name)

    @property
    def memories(self) -> tuple[Memory, ...]:
        """The host's memory, then those of accelerators."""
        return (Memory(HOST_MEMORY, self.ram_bytes, self.ram_alignment), *self.accelerators)

    def memory(self, name: str) -> Memory:
        """The memory called `name`. TargetError where the device has none such."""
        for memory in self.memories:
            if memory.name == name:
                return memory
        known = [memory.name for memory in self.memories]
        raise TargetError(f"the target '{self.name}' does not have the memory '{name}'{nearest(name, known)}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, as the manifest stores them; without what there is not, and what is as usual."""
        accelerators = [_said(asdict(one), alignment=ALIGNMENT) for one in self.accelerators]
        content = {**asdict(self), "features": list(self.features), "accelerators": accelerators}
        return _said(content, accelerators=[], ram_alignment=ALIGNMENT, gpu=None, backend=USUAL_BACKEND)

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Target:
        """What `to_dict` gave."""
        accelerators = tuple(Memory(**one) for one in content.get("accelerators", ()))
        gpu = Gpu(**content["gpu"]) if content.get("gpu") else None
        features = tuple(content["features"])
        return Target(**{**content, "features": features, "accelerators": accelerators, "gpu": gpu})


def _said(content: Mapping[str, Any], **usual: object) -> dict[str, Any]:
    """What is not as usual."""
    return {key: value for key, value in content.items() if key not in usual or value != usual[key]}


def get(name: str) -> Target:
    """The target called `name`; `host` is this machine, resolved; `sm_89` any GPU of that compute capability.
    TargetError names the nearest known target."""
    if re.fullmatch(r"sm_\d{2,3}a?", name):
        return _any_gpu(name)
    if name not in _names():
        raise TargetError(f"no target is called '{name}'{nearest(name, _names())}")
    return _load(name)


def all() -> tuple[Target, ...]:
    """Every target, `host` first, the rest by name."""
    return tuple(_load(name) for name in sorted(_names(), key=lambda name: (name != "host", name)))


def generations() -> tuple[Target, ...]:
    """The least GPU of each generation, by which `get` knows them too."""
    return tuple(_any_gpu(arch) for arch in GENERATIONS)


def parse(text: str, origin: str) -> Target:
    """A target file's content as a Target; `origin` names the file in errors. The host's file gives only name and
    description: the rest is measured. Raises TargetError for unknown, missing or mistyped keys."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TargetError(f"{origin} is not valid TOML: {error}") from None
    known = {field.name: field.type for field in fields(Target) if field.default is MISSING}
    optional = {"ram_alignment": "int", "backend": "str"}
    gpu = gpu_of(content.pop("gpu", None), origin)
    accelerators = _accelerators(content.pop("accelerators", []), origin)
    for key in content:
        if key not in known | optional:
            raise TargetError(f"{origin} has an unknown key '{key}'{nearest(key, known | optional)}")
    if content.get("cpu") == processor.NATIVE:
        content = {**content, **machine.measure()}
    missing = sorted(known.keys() - content.keys())
    if missing:
        raise TargetError(f"{origin} lacks {', '.join(missing)}")
    typed = {key: _typed(origin, key, (known | optional)[key], value) for key, value in content.items()}
    return _checked({**typed, "accelerators": accelerators, "gpu": gpu}, origin)


def _accelerators(listed: object, origin: str) -> tuple[Memory, ...]:
    """The tables `[[accelerators]]`, each a memory of a name of its own."""
    kinds = {field.name: field.type for field in fields(Memory)}
    needed = [field.name for field in fields(Memory) if field.default is MISSING]
    found: list[Memory] = []
    for one in listed if isinstance(listed, list) else [listed]:
        if not isinstance(one, dict) or not set(needed) <= one.keys() <= kinds.keys():
            raise TargetError(
                f"{origin}: each of [[accelerators]] must have {' and '.join(needed)}, may have alignment, "
                "and nothing else"
            )
        typed: dict[str, Any] = {key: _typed(origin, key, kinds[key], value) for key, value in one.items()}
        if typed["name"] in (HOST_MEMORY, *(memory.name for memory in found)):
            raise TargetError(f"{origin}: a second memory is called '{typed['name']}'")
        found.append(Memory(**typed))
    return tuple(found)


def _typed(origin: str, key: str, kind: object, value: object) -> object:
    """`value` when it has the field's type; whole positive numbers only, and no bool posing as int."""
    if kind == "str" and isinstance(value, str) and value:
        return value
    if kind == "int" and isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if str(kind).startswith("tuple") and isinstance(value, (list, tuple)) and _are_features(value):
        return tuple(value)
    wanted = {"str": "text", "int": "a positive whole number"}.get(str(kind), "a list of texts such as '+fullfp16'")
    raise TargetError(f"{origin}: {key} must be {wanted}, not {value!r}")


def _are_features(values: list[object] | tuple[object, ...]) -> bool:
    """Whether every feature is `+name` or `-name`."""
    return not [value for value in values if not (isinstance(value, str) and value[:1] in ("+", "-") and value[1:])]


def _checked(content: dict[str, Any], origin: str) -> Target:
    target = Target(**content)
    if target.os not in _OPERATING_SYSTEMS:
        raise TargetError(f"{origin}: os '{target.os}' is not supported{nearest(target.os, _OPERATING_SYSTEMS)}")
    if target.os not in target.triple:
        raise TargetError(f"{origin}: triple '{target.triple}' is not for os '{target.os}'")
    for memory in target.memories:
        if not LEAST_ALIGNMENT <= memory.alignment <= MOST_ALIGNMENT or memory.alignment.bit_count() != 1:
            raise TargetError(
                f"{origin}: the memory '{memory.name}' has an alignment of {memory.alignment} bytes: it must be a "
                f"power of two from {LEAST_ALIGNMENT} to {MOST_ALIGNMENT}"
            )
    return target


@cache
def _any_gpu(arch: str) -> Target:
    """The least that a GPU of a generation may be."""
    gpu = Gpu(arch, multiprocessors=16, clock_mhz=1500, f32_per_cycle=256, bf16_per_cycle=512, memory_mb_per_s=200_000)
    least = (Memory("gpu", 8 << 30, 256),)
    described = f"any GPU of NVIDIA's of compute capability {arch[3:-1]}.{arch[-1]}, beside an x86-64-v3 processor"
    if arch.endswith("a"):
        described = described.replace(f"{arch[3:-1]}.a", f"{arch[3:-2]}.{arch[-2]}")
    return replace(get("x86-64-v3"), name=arch, description=described, accelerators=least, gpu=gpu, backend="cuda")


@cache
def _names() -> tuple[str, ...]:
    folder = resources.files(__package__)
    return tuple(sorted(file.name[:-5] for file in folder.iterdir() if file.name.endswith(".toml")))


@cache
def _load(name: str) -> Target:
    file = f"{name}.toml"
    target = parse(resources.files(__package__).joinpath(file).read_text("utf-8"), file)
    if target.name != name:
        raise TargetError(f"{file} calls itself '{target.name}'")
    return target
