"""Builds `pock-agent.pyz`: the agent with all that it needs for any CPython from 3.9 to 3.14 on 64-bit Linux (glibc
2.28 or newer), x86-64 and ARM. The same inputs give the same bytes.

    python -m device_agent.onefile.build --to .cache/agent
"""

import argparse
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ARCHITECTURES = ("x86_64", "aarch64")
PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
CFFI = {"3.9.2": "2.0.0", "3.10": "2.1.1", "3.11": "2.1.1", "3.12": "2.1.1", "3.13": "2.1.1", "3.14": "2.1.1"}
"""Python -> the release of cffi that has a wheel for it. Only its compiled half is used, which has the version of
Python in its name: all of them lie side by side."""
FOR_ALL = ("cryptography==50.0.2", "tomli==2.4.0", "typing_extensions==4.16.0")
"""For all versions of Python: by the stable interface, and without native code."""
LEFT_OUT = (".dist-info/", "/tests/", ".pyi")
DATE = (1980, 1, 1, 0, 0, 0)


class BuildError(Exception):
    """A wheel is not the one that is listed; the message says which."""


def build(folder: Path) -> Path:
    """Write the file to `folder`, where the wheels stay for the next time, and return its path."""
    made = folder / "pock-agent.pyz"
    write(made, own_files() | libraries(folder))
    return made


def libraries(folder: Path) -> dict[str, bytes]:
    """What the file has of others, by the names that it has there; their wheels stay in `folder`."""
    files: dict[str, bytes] = {}
    for architecture in ARCHITECTURES:
        wheels = folder / "wheels" / architecture
        _fetch(architecture, wheels)
        for name, content in _contents(wheels):
            part = architecture if name.endswith(".so") else "any"
            if files.setdefault(f"{part}/{name}", content) != content:
                raise BuildError(f"{name} of {architecture} is another file than that of {ARCHITECTURES[0]}")
    return files


def own_files() -> dict[str, bytes]:
    """What of the file is not a library, by the names that it has there."""
    files = {"__main__.py": (HERE / "bootstrap.py").read_bytes()}
    for path in (HERE.parent / "pock_agent").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            files[f"any/{path.relative_to(HERE.parent).as_posix()}"] = path.read_bytes()
    return files


def _fetch(architecture: str, wheels: Path) -> None:
    """Have the wheels of an architecture that `wheels.txt` lists, and no others."""
    if not wheels.is_dir():
        for python, cffi in CFFI.items():
            _download((f"cffi=={cffi}",), architecture, python, wheels)
        _download(FOR_ALL, architecture, "3.9.2", wheels)
    lines = (HERE / "wheels.txt").read_text().splitlines()
    listed = {name: digest for digest, name in map(str.split, lines)}
    for wheel in sorted(wheels.iterdir()):
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if listed.get(wheel.name) != digest:
            raise BuildError(f"{wheel} has the SHA-256 {digest}, which {HERE.name}/wheels.txt does not list; remove it")


def _download(requirements: tuple[str, ...], architecture: str, python: str, wheels: Path) -> None:
    platforms = [f"--platform={platform}_{architecture}" for platform in PLATFORMS]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}", f"--dest={wheels}"]
    subprocess.run([*command, *platforms, *requirements], check=True)


def _contents(wheels: Path) -> Iterator[tuple[str, bytes]]:
    for wheel in sorted(wheels.iterdir()):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                unused = wheel.name.startswith("cffi-") and not name.startswith("_cffi_backend.")
                if not unused and not name.endswith("/") and not any(part in name for part in LEFT_OUT):
                    yield name, archive.read(name)


def write(made: Path, files: dict[str, bytes]) -> None:
    """Write the archive of these files to `made`; the same ones give the same bytes."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\n{len(content)}\n".encode())
        digest.update(content)
    with made.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in sorted({**files, "build-id": digest.hexdigest()[:32].encode()}.items()):
                info = zipfile.ZipInfo(name, DATE)
                info.compress_type = zipfile.ZIP_LZMA if name.endswith(".so") else zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                archive.writestr(info, content, compresslevel=9)
    made.chmod(0o755)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Build the agent as one file.")
    parser.add_argument("--to", type=Path, default=Path(".cache/agent"), metavar="FOLDER")
    made = build(parser.parse_args().to)
    print(f"{made} {made.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
