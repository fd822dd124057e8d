"""The script that starts, limits and ends a program, in each shell of POSIX that is here."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from pock_agent.place.adb.supervised import SCRIPT

SHELLS = [["dash"], ["bash", "--posix"], ["bash"], ["mksh"], ["busybox", "sh"]]
HERE = [shell for shell in SHELLS if shutil.which(shell[0])]
LIMITS = ["100", "1000000", "20", "64"]


class Started:
    """The script, with a program, in a shell."""

    def __init__(self, shell: list[str], folder: Path, *command: str) -> None:
        (folder / "run.sh").write_text(SCRIPT)
        pipe = subprocess.PIPE
        words = [*shell, "./run.sh", "MARK", *LIMITS, *command]
        self.process = subprocess.Popen(words, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe)

    def ended(self, said: bytes | None = None) -> tuple[list[str], str]:
        """Its lines and errors, once it was told something; `None` leaves its input open to the end."""
        assert self.process.stdin and self.process.stdout and self.process.stderr
        if said is not None:
            self.process.stdin.write(said)
            self.process.stdin.flush()
        lines = self.process.stdout.read().decode().splitlines()
        errors = self.process.stderr.read().decode()
        assert self.process.wait(10) == 0
        self.process.stdin.close()
        return lines, errors


@pytest.fixture(params=HERE, ids=" ".join)
def shell(request: pytest.FixtureRequest) -> list[str]:
    """One of them."""
    return list(request.param)


def test_lines_errors_and_code_are_the_programs(shell: list[str], tmp_path: Path) -> None:
    """Nothing of the shell's own gets among them."""
    lines, errors = Started(shell, tmp_path, "sh", "-c", "echo hi; echo no >&2; exit 7").ended()
    assert lines[0].startswith("MARK began ") and lines[1:] == ["hi", "", "MARK ended 7"]
    assert errors == "no\n" and not (tmp_path / "pid").exists()


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("KILL", 137)])
def test_signals_are_passed_on(name: str, code: int, shell: list[str], tmp_path: Path) -> None:
    lines, errors = Started(shell, tmp_path, "sleep", "60").ended(f"{name}\n".encode())
    assert lines[-1] == f"MARK ended {code}" and errors == ""


def test_a_word_that_is_no_signal_does_nothing(shell: list[str], tmp_path: Path) -> None:
    lines, _ = Started(shell, tmp_path, "sleep", "60").ended(b"; touch hurt\n-9 1\n$(touch hurt)\nKILL\n")
    assert lines[-1] == "MARK ended 137" and not (tmp_path / "hurt").exists()


def test_the_end_of_the_input_ends_the_program(shell: list[str], tmp_path: Path) -> None:
    """And the broken pipe that comes with it does not, so that a checkpoint can be written."""
    text = 'trap "touch saved; exit 7" TERM; while :; do echo step; sleep 0.05; done'
    started = Started(shell, tmp_path, "sh", "-c", text)
    assert started.process.stdin and started.process.stdout and started.process.stderr
    while started.process.stdout.readline() != b"step\n":  # its trap is set by then
        pass
    for stream in (started.process.stdin, started.process.stdout, started.process.stderr):
        stream.close()
    started.process.wait(20)
    end = time.monotonic() + 10
    while not (tmp_path / "saved").exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_limits_hold(shell: list[str], tmp_path: Path) -> None:
    """Files: 20 blocks of 512 bytes, or of 1024 where a shell counts so."""
    lines, _ = Started(shell, tmp_path, "sh", "-c", "ulimit -t; exec dd if=/dev/zero of=big bs=1024 count=100").ended()
    assert "100" in lines and "RLIMIT_FSIZE" in lines[0]
    assert (tmp_path / "big").stat().st_size in (20 * 512, 20 * 1024)
    assert lines[-1] != "MARK ended 0"
