"""Programs and libraries of other people that the estimates need, and which Debian packages have them."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from benchmarks.document import ROOT

CACHE = ROOT / ".cache" / "raspberry_pi"
_LLVM = ("19", "20", "21", "18", "17")
"""Releases that have a model of Neoverse N1, in the order we try them."""


class MissingTool(RuntimeError):
    """A program is not installed; the message says which package has it."""


@cache
def tool(name: str) -> str:
    """Path of `qemu-aarch64` or of an LLVM tool. Raises MissingTool."""
    if name.startswith("qemu"):
        candidates, package = [name], "qemu-user"
    else:
        candidates, package = [f"{name}-{version}" for version in _LLVM], f"llvm-{_LLVM[0]}"
    found = next(filter(None, map(shutil.which, candidates)), None)
    if found is None:
        raise MissingTool(f"{name} is not installed: `apt-get install --no-install-recommends {package}`")
    return found


@cache
def unpacked(packages: tuple[str, ...], architecture: str) -> Path:
    """A folder with the files of Debian packages of another architecture, which are not installed: apt keeps its lists
    and states of it beside the packages, in our cache."""
    folder = CACHE / "debian" / f"{'-'.join(packages)}-{architecture}"
    if (folder / "usr").is_dir():
        return folder
    state = CACHE / "apt" / architecture
    for part in ("lists/partial", "cache/archives/partial", "packages"):
        (state / part).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    settings = {
        "APT::Architecture": architecture, "APT::Architectures": architecture, "APT::Sandbox::User": "root",
        "Dir::State::Lists": state / "lists", "Dir::State::Status": state / "status", "Dir::Cache": state / "cache",
    }  # fmt: skip
    apt = ["apt-get", "-qq", *(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "download", *packages], check=True, cwd=state / "packages")
    partial = folder.with_suffix(".partial")
    partial.mkdir(parents=True, exist_ok=True)
    for package in packages:
        for file in (state / "packages").glob(f"{package}_*.deb"):
            subprocess.run(["dpkg", "-x", str(file), str(partial)], check=True)
    partial.rename(folder)
    return folder
