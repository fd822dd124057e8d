"""Target files: all of them resolve, and a malformed one is refused with a sentence that helps."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pockengine.errors import TargetError
from pockengine.targets import Target, get, parse
from pockengine.targets import all as all_targets

NAMES = {
    "host", "x86-64-v3", "raspberry-pi-4", "raspberry-pi-5", "raspberry-pi-zero-2", "jetson-orin-nano",
    "snapdragon-8-gen-3", "apple-m1",
}  # fmt: skip

GOOD = """
name = "toy"
description = "A toy"
triple = "aarch64-linux-musl"
cpu = "cortex_a53"
features = ["-aes"]
os = "linux"
cores = 1
ram_bytes = 1
vector_bytes = 16
registers = 32
mr = 8
nr = 12
l1_bytes = 1
l2_bytes = 1
"""


def test_every_promised_device_has_a_target() -> None:
    assert {target.name for target in all_targets()} == NAMES


def test_host_is_explicit() -> None:
    host = get("host")
    assert "native" not in (host.cpu, *host.features)
    assert host.cores >= 1 and host.ram_bytes > 1 << 28


@pytest.mark.parametrize("target", all_targets(), ids=lambda target: target.name)
def test_zig_knows_the_cpu_and_its_features(target: Target) -> None:
    cpu = target.cpu + "".join(target.features)
    command = [sys.executable, "-m", "ziglang", "build-obj", "--show-builtin", "-target", target.triple, f"-mcpu={cpu}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for feature in target.features:
        listed = f".{feature[1:]}," in done.stdout
        assert listed == (feature[0] == "+"), feature


@pytest.mark.parametrize("target", all_targets(), ids=lambda target: target.name)
def test_micro_kernel_fits_the_registers(target: Target) -> None:
    lanes = target.vector_bytes // 4
    assert target.nr % lanes == 0
    assert target.mr * target.nr // lanes + target.nr // lanes <= target.registers


def test_unknown_name_gets_a_hint() -> None:
    with pytest.raises(TargetError, match="did you mean 'raspberry-pi-4'"):
        get("raspbery-pi4")


def test_a_whole_file_parses() -> None:
    assert parse(GOOD, "toy.toml").to_dict()["features"] == ["-aes"]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("cores = 1", "coers = 1", "unknown key 'coers' .did you mean 'cores'"),
        ("cores = 1\n", "", "lacks cores"),
        ("cores = 1", "cores = 0", "cores must be a positive whole number, not 0"),
        ("cores = 1", "cores = true", "cores must be a positive whole number"),
        ('["-aes"]', '["aes"]', "features must be a list of texts"),
        ('os = "linux"', 'os = "windows"', "os 'windows' is not supported"),
        ('os = "linux"', 'os = "macos"', "triple 'aarch64-linux-musl' is not for os 'macos'"),
        ("cores = 1", "cores = ", "not valid TOML"),
    ],
)
def test_a_malformed_file_is_refused(before: str, after: str, message: str) -> None:
    assert before in GOOD
    with pytest.raises(TargetError, match=message):
        parse(GOOD.replace(before, after), "toy.toml")
