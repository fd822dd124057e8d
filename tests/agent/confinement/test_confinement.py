"""What a child can and cannot do, tried out by children that try it."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pock_agent.confinement import launcher
from pock_agent.device import target
from pock_agent.errors import FailureCode, JobFailed
from tests.agent.conftest import Device, enroll
from tests.agent.service_double import ServiceDouble

AS_ROOT = os.geteuid() == 0


def found(result: dict[str, Any]) -> dict[str, Any]:
    assert result["state"] == "succeeded", result.get("failure")
    return dict(result["report"]["train"]["found"])


@pytest.mark.skipif(not AS_ROOT, reason="only root can become another user")
@pytest.mark.may_skip
def test_a_root_agent_runs_the_child_as_nobody(device: Device) -> None:
    result = device.carry_out(evaluate=False)
    assert found(result)["uid"] == pwd.getpwnam("nobody").pw_uid
    confinement = result["report"]["health"]["confinement"]
    assert confinement["user"] == found(result)["uid"]
    assert confinement["tied_to_agent"] and confinement["oom_first"]
    assert {"RLIMIT_CORE", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE"} == set(confinement["limits"])


@pytest.mark.skipif(not AS_ROOT, reason="another user's child could read them")
@pytest.mark.may_skip
def test_the_child_cannot_read_the_agents_secrets(device: Device) -> None:
    secrets = [str(device.state.key), str(device.state.counters), "../device.key", "../job.json", "reports"]
    result = found(device.carry_out({"train": {"read": secrets}}, evaluate=False))
    assert [result[f"read {path}"] for path in secrets] == ["Permission denied"] * 5


@pytest.mark.skipif(not AS_ROOT, reason="the files belong to the child's user")
@pytest.mark.may_skip
@pytest.mark.parametrize("path", ["artifact/bin/model", "artifact/params.safetensors", "data/train.safetensors"])
def test_the_child_cannot_change_what_was_verified(path: str, device: Device) -> None:
    assert found(device.carry_out({"train": {"overwrite": path}}, evaluate=False))["overwrote"] is False


def test_the_child_has_no_network_where_the_system_allows_that(device: Device) -> None:
    result = device.carry_out({"train": {"connect": device.double.port}}, evaluate=False)
    allowed = result["report"]["health"]["confinement"]["network"]
    assert found(result)["connected"] is allowed
    if AS_ROOT:
        assert allowed is False


def test_the_child_sees_none_of_the_agents_environment(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCK_SECRET", "x")
    names = found(device.carry_out(evaluate=False))["environment"]
    assert "POCK_SECRET" not in names
    assert set(names) <= {"PATH", "LANG", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"}


def test_a_child_that_allocates_too_much_fails_with_out_of_memory(device: Device) -> None:
    result = device.carry_out({"train": {"allocate": 1 << 30}}, evaluate=False)
    assert result["failure"]["code"] == 2003


def test_a_child_is_killed_at_the_wall_clock_limit(device: Device, flag: Path) -> None:
    result = device.carry_out({"train": {"hang_while": str(flag)}}, evaluate=False, limits={"wall_seconds": 1})
    assert result["failure"]["code"] == 10001
    assert "1 s in all" in result["failure"]["detail"]


def test_a_plan_that_needs_more_memory_than_is_free_is_not_started(device: Device) -> None:
    result = device.carry_out(limits={"required_bytes": 1 << 50, "memory_bytes": 1 << 51})
    assert result["failure"]["code"] == 10002
    assert device.double.counts["blob"] == 0


def test_a_grandchild_that_keeps_the_pipes_open_is_killed(device: Device) -> None:
    assert device.carry_out({"train": {"leave_child": True}}, evaluate=False)["state"] == "succeeded"


def test_a_child_that_floods_its_output_is_stopped(device: Device) -> None:
    lines = ['{"event": "step", "step": 1}'] * 2000
    result = device.carry_out({"train": {"print": lines}}, evaluate=False)
    assert result["failure"]["code"] == 2001
    assert "far more lines" in result["failure"]["detail"]


EXITS = [(1, 2001), (2, 10003), (3, 10004), (4, 2002), (5, 2003), (6, 3003), (77, 2001)]


@pytest.mark.parametrize(("exit_code", "failure_code"), EXITS)
def test_each_exit_code_becomes_its_failure_code(exit_code: int, failure_code: int, device: Device) -> None:
    failure = device.carry_out({"train": {"exit": exit_code, "stderr": "for this reason"}}, evaluate=False)["failure"]
    assert failure["code"] == failure_code
    assert "for this reason" in failure["detail"]


@pytest.mark.parametrize(
    ("number", "failure_code", "words"),
    [(signal.SIGSEGV, 2001, "signal 11"), (signal.SIGKILL, 2003, "memory"), (signal.SIGILL, 2001, "instruction")],
)
def test_each_signal_is_told_apart(number: int, failure_code: int, words: str, device: Device) -> None:
    failure = device.carry_out({"train": {"signal": number}}, evaluate=False)["failure"]
    assert failure["code"] == failure_code
    assert words in failure["detail"]


def elf(machine: int, code: bytes) -> bytes:
    """A whole static 64-bit little-endian ELF executable around position-independent code."""
    base, header = 0x400000, 64 + 56
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    file_header = struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, base + header, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    size = header + len(code)
    return ident + file_header + struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000) + code


def aarch64_program(line: bytes) -> bytes:
    """Machine code that writes one line to stdout and exits with 0."""
    instructions = [
        0xD2800020,  # mov x0, #1
        0x100000E1,  # adr x1, line (7 instructions on)
        0xD2800002 | len(line) << 5,  # mov x2, #len
        0xD2800808,  # mov x8, #64 (write)
        0xD4000001,  # svc #0
        0xD2800000,  # mov x0, #0
        0xD2800BA8,  # mov x8, #93 (exit)
        0xD4000001,  # svc #0
    ]
    return elf(183, b"".join(struct.pack("<I", word) for word in instructions) + line)


@pytest.mark.skipif(shutil.which("qemu-aarch64-static") is None, reason="needs qemu-user-static")
def test_a_simulated_raspberry_pi_runs_its_binary_under_qemu(double: ServiceDouble, tmp_path: Path) -> None:
    device = enroll(double, tmp_path / "pi", target="raspberry-pi-4")
    facts = double.devices[device.identity.device_id]["facts"]
    assert (facts["target"], facts["emulated"]) == ("raspberry-pi-4", True)
    payload = device.job(evaluate=False, run={"save_weights": False}, artifact={"target": "raspberry-pi-4"})
    program = aarch64_program(b'{"event": "done", "report": {"entry": "train", "steps": 5}}\n')
    payload["artifact"]["members"]["bin/model"] = double.add_blob(program)
    double.give(double.seal(payload))
    assert device.run()
    (result,) = double.results[payload["run_id"]]
    assert result["report"]["health"]["emulated"] is True
    assert result["report"]["train"]["steps"] == 5


def test_a_binary_for_another_processor_is_refused_with_advice(device: Device) -> None:
    payload = device.job(evaluate=False)
    payload["artifact"]["members"]["bin/model"] = device.double.add_blob(elf(22, b""))  # IBM S/390
    device.double.give(device.double.seal(payload))
    assert not device.run()
    (result,) = device.double.results[payload["run_id"]]
    assert result["failure"]["code"] == 10003
    assert "build for this device's target" in result["failure"]["detail"]


def test_an_emulator_is_found_by_the_binarys_own_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name == "qemu-arm-static" else None)
    monkeypatch.setattr(target, "machine", lambda: "x86_64")
    binary = tmp_path / "model"
    binary.write_bytes(elf(40, b""))
    assert target.emulation_for(binary).prefix == ("/usr/bin/qemu-arm-static",)
    binary.write_bytes(elf(183, b""))
    with pytest.raises(JobFailed) as caught:
        target.emulation_for(binary)
    assert caught.value.code is FailureCode.BAD_ARGUMENT


def _launched(command: list[str], agent: int) -> tuple[int, str]:
    """What the launcher, started for an agent's process, ends with and tells."""
    read_end, write_end = os.pipe()
    about: dict[str, Any] = {"folder": "/", "environment": {}, "limits": {}, "user": None, "agent": agent}
    specification = {**about, "command": command, "status_descriptor": write_end}
    done = subprocess.run(
        [sys.executable, "-I", "-S", launcher.__file__, json.dumps(specification)],
        pass_fds=[write_end],
        capture_output=True,
    )
    os.close(write_end)
    with os.fdopen(read_end) as told:
        return done.returncode, told.read()


def test_the_launcher_refuses_to_outlive_its_agent(tmp_path: Path) -> None:
    """Started for an agent that is gone already, it ends before it runs anything."""
    assert _launched(["/bin/touch", str(tmp_path / "ran")], agent=1)[0] == 125
    assert not (tmp_path / "ran").exists()


def test_a_program_of_another_backend_is_a_sentence(tmp_path: Path) -> None:
    program = tmp_path / "program.json"
    program.write_text('{"format": 1}')
    program.chmod(0o755)
    code, told = _launched([str(program)], agent=os.getpid())
    assert code == 127 and "none that this device runs; build it for this device, with the backend 'c'" in told
