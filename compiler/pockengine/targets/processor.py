"""What the C compiler knows of processors: a CPU's model and features, and which instruction sets it has that another
one lacks. Knows nothing of targets.

A CPU is written as `-mcpu` takes it: a model, with what is added and taken away (`cortex_x4-sve`)."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ziglang

from pockengine.errors import TargetError, nearest

ZIG = Path(ziglang.__file__).parent / "zig"
"""The C compiler, as its package installs it."""

_UNTOLD = frozenset(("ARM_FEATURE_AES", "ARM_FEATURE_CRYPTO", "ARM_FEATURE_SHA2"))
"""Options of almost any Arm core, which models do not tell and C is never compiled to."""

NATIVE = "native"
"""The CPU of this machine, as the compiler finds it."""


@dataclass(frozen=True)
class Processor:
    """A CPU's model and all its features: those of its model, what is added, without what is taken away."""

    model: str
    features: frozenset[str]

    def spelled(self, triple: str) -> tuple[str, ...]:
        """What these features have beyond the model's own, and what they lack of them: `+adx`, `-sve`."""
        usual = read(triple, self.model).features
        added = [f"+{feature}" for feature in sorted(self.features - usual)]
        return tuple(added + [f"-{feature}" for feature in sorted(usual - self.features)])


@cache
def read(triple: str, cpu: str) -> Processor:
    """The processor that a CPU's text stands for. TargetError where the compiler knows no such one."""
    done = _asked(triple, cpu)
    model = re.search(r"\.model = &std\.Target\.\w+\.cpu\.@?\"?(\w+)", done.stdout)
    listed = re.search(r"featureSet\(&\.\{(.*?)\}\)", done.stdout, re.DOTALL)
    if done.returncode == 0 and model is not None and listed is not None:
        return Processor(model[1], frozenset(re.findall(r"\.@?\"?(\w+)", listed[1])))
    arch = triple.partition("-")[0]
    if unknown := re.search(r"unknown CPU feature: '(.*)'", done.stderr):
        raise TargetError(f"no {arch} processor has the feature '{unknown[1]}'{nearest(unknown[1], _listed(done))}")
    raise TargetError(f"the C compiler knows no {arch} processor '{cpu}'{nearest(_plain(cpu), _models(triple))}")


def named(triple: str, text: str) -> str:
    """The CPU that a person may mean, as `-mcpu` wants it: `x86-64-v3` and `skylake-avx512`, as other compilers write
    models, are `x86_64_v3` and `skylake_avx512`. TargetError where there is none."""
    cpu = _plain(text) if _plain(text) in _models(triple) else text
    read(triple, cpu)
    return cpu


def _plain(model: str) -> str:
    return model.replace("-", "_")


@cache
def _models(triple: str) -> frozenset[str]:
    """All CPU models of an architecture: the compiler lists them where it is asked for one that there is not."""
    return frozenset(_listed(_asked(triple, "?")))


def _asked(triple: str, cpu: str) -> subprocess.CompletedProcess[str]:
    command = [str(ZIG), "build-obj", "--show-builtin", "-target", triple, f"-mcpu={cpu}"]
    return subprocess.run(command, capture_output=True, text=True)


def _listed(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the compiler knows instead of what it was asked for."""
    return re.findall(r"^ ([\w.]+)", done.stderr, re.MULTILINE)


def lacking(triple: str, cpu: str, beside: str) -> list[str]:
    """The instruction sets of `cpu` that the CPU `beside` lacks, as the compiler's macros call them (`AVX512F`). Unlike
    features they say only what may be executed, not what is quick. TargetError for a CPU that there is not."""
    return sorted(_instruction_sets(triple, cpu) - _instruction_sets(triple, beside))


@cache
def _instruction_sets(triple: str, cpu: str) -> frozenset[str]:
    read(triple, cpu)
    with tempfile.TemporaryDirectory(prefix="pock-cpu-") as folder:
        source = Path(folder) / "empty.c"
        source.touch()
        command = [str(ZIG), "cc", "-target", triple, f"-mcpu={cpu}", "-dM", "-E", str(source)]
        macros = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^#define (__[A-Z0-9_]+) 1$", macros, re.MULTILINE)
    return frozenset(name.strip("_") for name in found) - _UNTOLD
