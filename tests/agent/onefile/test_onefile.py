"""The agent as one file: on every Python there is here, unpacked whole or not at all, and doing a whole job."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from device_agent.onefile import bootstrap
from device_agent.onefile import build as onefile
from pock_agent import __version__
from tests.agent import fake_model
from tests.agent.service_double import ServiceDouble
from tests.agent.update.fleet import file_of


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return onefile.build(tmp_path_factory.mktemp("built"))


def usable(python: str) -> bool:
    """Whether there is such a Python, and not just a placeholder of its name."""
    return bool(shutil.which(python)) and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


def start(
    built: Path, unpacked: Path, *arguments: str, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Run the file where nothing of this environment can be imported."""
    environment = {"PATH": os.environ["PATH"], "POCK_AGENT_UNPACKED": str(unpacked)}
    return subprocess.run(
        [python, "-I", str(built), *arguments], env=environment, cwd=unpacked.parent, capture_output=True, text=True
    )


def test_it_is_small_and_the_same_each_time(built: Path, tmp_path: Path) -> None:
    assert built.stat().st_size < 10e6
    shutil.copytree(built.parent / "wheels", tmp_path / "wheels")
    assert onefile.build(tmp_path).read_bytes() == built.read_bytes()


def test_it_has_the_libraries_of_every_python_and_machine_that_it_names(built: Path) -> None:
    with zipfile.ZipFile(built) as file:
        names = set(file.namelist())
        for architecture in onefile.ARCHITECTURES:
            library = file.read(f"{architecture}/cryptography/hazmat/bindings/_rust.abi3.so")
            assert int.from_bytes(library[18:20], "little") == {"x86_64": 62, "aarch64": 183}[architecture]
            for python in onefile.CFFI:
                tag = "".join(python.split(".")[:2])
                assert f"{architecture}/_cffi_backend.cpython-{tag}-{architecture}-linux-gnu.so" in names


def test_it_runs_on_every_python_there_is_here_or_says_why_not(built: Path, tmp_path: Path) -> None:
    """3.6 to 3.14, and the one of this test."""
    found = [name for minor in range(6, 15) if usable(name := f"python3.{minor}")]
    for python in (sys.executable, *found):
        got = start(built, tmp_path / "unpacked", "--version", python=python)
        if python in ("python3.6", "python3.7", "python3.8"):
            assert got.returncode == 1 and got.stderr.count("\n") == 1
            assert got.stderr.startswith("pock-agent: Python 3.9.2 or newer is needed; this is 3.")
        else:
            assert (got.returncode, got.stdout, got.stderr) == (0, f"pock-agent {__version__}\n", "")


def test_it_does_a_job(built: Path, double: ServiceDouble, tmp_path: Path) -> None:
    double.tokens.add("good-token")
    state = ("--state-dir", str(tmp_path / "state"))
    enrolled = start(built, tmp_path / "unpacked", "enroll", double.url, "good-token", *state)
    assert enrolled.returncode == 0, enrolled.stderr
    (device_id,) = double.devices
    payload = double.payload(device_id, fake_model.SOURCE, fake_model.dataset({}), True)
    double.give(double.seal(payload))
    done = start(built, tmp_path / "unpacked", "run", "--once", *state)
    assert done.returncode == 0, done.stderr
    (result,) = double.results[str(payload["run_id"])]
    assert result["state"] == "succeeded"


def test_it_unpacks_once_and_keeps_the_version_before(built: Path, tmp_path: Path) -> None:
    unpacked = tmp_path / "unpacked"
    start(built, unpacked, "--version")
    (folder,) = unpacked.iterdir()
    made = folder.stat().st_mtime_ns, (folder / "pock_agent" / "cli.py").stat().st_mtime_ns
    start(built, unpacked, "--version")
    assert (folder.stat().st_mtime_ns, (folder / "pock_agent" / "cli.py").stat().st_mtime_ns) == made
    for age, name in enumerate(("before", "older", "oldest"), start=1):
        (unpacked / name).mkdir()
        os.utime(unpacked / name, (time.time() - age * 3600,) * 2)
    shutil.rmtree(folder)
    start(built, unpacked, "--version")
    assert {path.name for path in unpacked.iterdir()} == {folder.name, "before"}


def test_it_drops_no_version_that_runs(built: Path, double: ServiceDouble, tmp_path: Path) -> None:
    """Several agents of one user share what is unpacked, each of its own version."""
    unpacked = tmp_path / "unpacked"
    double.tokens.add("good-token")
    state = ("--state-dir", str(tmp_path / "state"))
    assert start(built, unpacked, "enroll", double.url, "good-token", *state).returncode == 0
    (folder,) = unpacked.iterdir()
    environment = {"PATH": os.environ["PATH"], "POCK_AGENT_UNPACKED": str(unpacked)}
    running = subprocess.Popen([sys.executable, "-I", str(built), "run", *state], env=environment)
    try:
        double.wait_for(lambda: double.counts["work"], "the first request for work", 60)
        os.utime(folder, (time.time() - 7200,) * 2)
        for name in ("later", "latest"):
            assert start(file_of(tmp_path / f"{name}.pyz", name), unpacked, "--version").returncode == 0
        assert folder.is_dir() and len(list(unpacked.iterdir())) == 3
    finally:
        running.terminate()
        running.wait()
    assert start(file_of(tmp_path / "last.pyz", "last"), unpacked, "--version").returncode == 0
    assert not folder.exists()


def test_killed_while_it_unpacks_it_starts_the_next_time(built: Path, tmp_path: Path) -> None:
    unpacked = tmp_path / "unpacked"
    environment = {"PATH": os.environ["PATH"], "POCK_AGENT_UNPACKED": str(unpacked)}
    first = subprocess.Popen([sys.executable, "-I", str(built), "--version"], env=environment)
    while not list(unpacked.glob(".new-*/*")):
        assert first.poll() is None
    first.kill()
    first.wait()
    (half,) = unpacked.iterdir()
    os.utime(half, (time.time() - 7200,) * 2)
    assert start(built, unpacked, "--version").returncode == 0
    (folder,) = unpacked.iterdir()
    assert not folder.name.startswith(".new-")


def test_two_at_once(built: Path, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "POCK_AGENT_UNPACKED": str(tmp_path / "unpacked")}
    both = [subprocess.Popen([sys.executable, "-I", str(built), "--version"], env=environment) for _ in range(2)]
    assert [one.wait() for one in both] == [0, 0]


def test_a_folder_that_others_can_write_to_is_not_trusted(built: Path, tmp_path: Path) -> None:
    (tmp_path / "unpacked").mkdir()
    (tmp_path / "unpacked").chmod(0o777)
    got = start(built, tmp_path / "unpacked", "--version")
    assert got.returncode == 1 and "is not only this user's to write to" in got.stderr and got.stderr.count("\n") == 1


def test_a_link_in_the_folders_place_is_not_followed(built: Path, tmp_path: Path) -> None:
    """Whoever could write there earlier may have left a version of his own."""
    unpacked = tmp_path / "unpacked"
    start(built, unpacked, "--version")
    (folder,) = unpacked.iterdir()
    shutil.move(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    got = start(built, unpacked, "--version")
    assert got.returncode == 1 and "is a link" in got.stderr


def test_another_machine_is_told_what_to_do(built: Path, tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="no libraries for riscv64"):
        bootstrap.unpacked(str(built), tmp_path / "unpacked", "riscv64")
    assert not list((tmp_path / "unpacked").iterdir())


def test_a_damaged_file_is_one_sentence(built: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pyz"
    content = bytearray(built.read_bytes())
    content[len(content) // 2] ^= 255
    damaged.write_bytes(content)
    got = start(damaged, tmp_path / "unpacked", "--version")
    assert got.returncode == 1 and got.stderr.startswith("pock-agent: the agent cannot be unpacked")
    assert got.stderr.count("\n") == 1 and not list((tmp_path / "unpacked").iterdir())


def test_a_wheel_that_is_not_listed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forged(requirements: tuple[str, ...], architecture: str, python: str, wheels: Path) -> None:
        wheels.mkdir(parents=True, exist_ok=True)
        (wheels / "typing_extensions-4.16.0-py3-none-any.whl").write_bytes(b"other")

    monkeypatch.setattr(onefile, "_download", forged)
    with pytest.raises(onefile.BuildError, match="which onefile/wheels.txt does not list"):
        onefile.build(tmp_path)
    assert not (tmp_path / "pock-agent.pyz").exists()
