"""Target files: all of them resolve, and a malformed one is refused with a sentence that helps."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from pockengine.errors import TargetError
from pockengine.targets import Memory, Target, get, machine, parse, processor
from pockengine.targets import all as all_targets

NAMES = {
    "host", "x86-64-v3", "raspberry-pi-4", "raspberry-pi-5", "raspberry-pi-zero-2", "jetson-orin-nano",
    "snapdragon-8-gen-3", "apple-m1", "jetson-agx-orin", "h100", "h200", "rtx-4090", "rtx-5090",
    "snapdragon-8-gen-3-gpu", "mali-g610", "jetson-orin-nano-gpu",
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
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "build-obj",
        "--show-builtin",
        "-target",
        target.triple,
        f"-mcpu={target.mcpu}",
    ]
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


@pytest.mark.parametrize(
    ("chosen", "cpu", "features", "vector_bytes"),
    [
        ("x86-64-v3", "x86_64_v3", [], 32),
        ("x86_64_v2", "x86_64_v2", [], 16),
        ("x86_64_v2+avx-popcnt", "x86_64_v2", ["+avx", "-popcnt"], 16),
    ],
)
def test_the_host_as_a_lesser_cpu(
    chosen: str, cpu: str, features: list[str], vector_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if machine.measure()["triple"].startswith("aarch64"):
        chosen, cpu, features, vector_bytes = "cortex-a53-aes", "cortex_a53", ["-aes"], 16
    usual = machine.measure()
    monkeypatch.setenv("POCK_HOST_CPU", chosen)
    found = machine.measure()
    assert (found["cpu"], found["vector_bytes"]) == (cpu, vector_bytes)
    assert set(features) <= set(found["features"]) and len(features) == len(found["features"])
    assert {key: found[key] for key in ("cores", "l2_bytes", "triple")} == {
        key: usual[key] for key in ("cores", "l2_bytes", "triple")
    }


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("x86-64-v5", "POCK_HOST_CPU is 'x86-64-v5', but the C compiler knows no .* processor 'x86-64-v5'"),
        ("haswell+avx512g", "POCK_HOST_CPU is 'haswell.avx512g', but no .* processor has the feature 'avx512g'"),
        ("x86_64_v3+xop+amx_bf16", "but this machine .* lacks .*XOP.*name a lesser CPU"),
    ],
)
def test_a_host_cpu_that_this_machine_is_not(chosen: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCK_HOST_CPU", chosen)
    with pytest.raises(TargetError, match=message):
        machine.measure()


@pytest.mark.parametrize(
    ("cpu", "features"),
    [
        ("sapphirerapids", ()),
        ("sapphirerapids", ("-amx_bf16", "-amx_int8", "-amx_tile")),  # as under a hypervisor that hides them
        ("icelake_server", ("+amx_bf16", "+amx_tile")),
        ("znver5", ("-pku",)),
    ],
)
def test_a_target_without_tiles_has_none_whatever_its_model_has(cpu: str, features: tuple[str, ...]) -> None:
    target = replace(get("x86-64-v3"), cpu=cpu, features=features)
    plain = target.without_tiles()
    assert not [feature for feature in plain.all_features if feature.startswith("amx")] and not plain.uses_tiles
    assert plain.all_features == {feature for feature in target.all_features if not feature.startswith("amx")}
    assert plain.without_tiles() == plain


def test_which_instruction_sets_a_cpu_lacks() -> None:
    assert processor.lacking("x86_64-linux-musl", "x86_64_v3", "znver5") == []
    assert "AVX512F" in processor.lacking("x86_64-linux-musl", "znver5", "haswell")
    assert processor.lacking("aarch64-linux-musl", "cortex_a72-aes", "cortex_a72") == []
    assert processor.lacking("aarch64-linux-musl", "cortex_a53", "cortex_x4") == []
    assert processor.lacking("aarch64-linux-musl", "cortex_a76", "cortex_a72")


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


GPU = "\n[[accelerators]]\nname = 'gpu'\nnbytes = 4096\n"


def test_accelerators_have_memories_of_their_own() -> None:
    plain, target = parse(GOOD, "toy.toml"), parse(GOOD + GPU, "toy.toml")
    assert plain.memories == (Memory("ram", 1),) and "accelerators" not in plain.to_dict()
    assert target.memories == (Memory("ram", 1), Memory("gpu", 4096))
    assert [Target.from_dict(one.to_dict()) for one in (plain, target)] == [plain, target]
    assert target.memory("gpu") == Memory("gpu", 4096)
    with pytest.raises(TargetError, match="the target 'toy' does not have the memory 'gpus' .did you mean 'gpu'"):
        target.memory("gpus")


def test_memories_have_alignments() -> None:
    plain, target = parse(GOOD, "toy.toml"), parse(f"{GOOD}ram_alignment = 128\n{GPU}alignment = 256\n", "toy.toml")
    assert [memory.alignment for memory in plain.memories] == [64] and "ram_alignment" not in plain.to_dict()
    assert [memory.alignment for memory in target.memories] == [128, 256]
    assert Target.from_dict(target.to_dict()) == target


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ram_alignment = 8", "'ram' has an alignment of 8 bytes: it must be a power of two from 16 to 4096"),
        ("ram_alignment = 96", "an alignment of 96 bytes"),
        ("ram_alignment = 8192", "an alignment of 8192 bytes"),
        ("ram_alignment = '64'", "ram_alignment must be a positive whole number"),
        (GPU + "alignment = 0", "alignment must be a positive whole number"),
        (GPU + "alignment = 100", "'gpu' has an alignment of 100 bytes"),
        (GPU + "speed = 9", "each of .*accelerators.* must have name and nbytes, may have alignment, and nothing else"),
        ("accelerators = 3", "each of .*accelerators.* must have name and nbytes"),
        ("[[accelerators]]\nname = 'gpu'", "must have name and nbytes"),
        (GPU.replace("4096", "0"), "nbytes must be a positive whole number"),
        (GPU.replace("gpu", "ram"), "a second memory is called 'ram'"),
        (GPU + GPU, "a second memory is called 'gpu'"),
    ],
)
def test_a_malformed_memory_is_refused(text: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        parse(f"{GOOD}\n{text}\n", "toy.toml")


RATES = """
[gpu]
arch = "sm_87"
multiprocessors = 8
clock_mhz = 625
f32_per_cycle = 256
bf16_per_cycle = 2048
memory_mb_per_s = 68000
"""


def test_a_gpu_is_told_as_its_maker_does_and_survives_a_manifest() -> None:
    target = parse(GOOD + 'backend = "cuda"\n' + RATES, "toy.toml")
    assert target.gpu is not None and target.gpu.bytes_per_cycle == 68000 / 625
    assert target.gpu.flops_per_cycle == 8 * 256
    assert Target.from_dict(target.to_dict()) == target
    assert "gpu" not in parse(GOOD, "toy.toml").to_dict()


@pytest.mark.parametrize(
    "change, part",
    [
        (("clock_mhz = 625", ""), "gpu lacks clock_mhz"),
        (("clock_mhz = 625", "clock_mhz = 0"), "gpu.clock_mhz must be a positive whole number, not 0"),
        (("clock_mhz = 625", "clock_mhz = true"), "gpu.clock_mhz must be a positive whole number"),
        (('"sm_87"', "87"), "gpu.arch must be text"),
        (("memory_mb", "image_reads = 1\nmemory_mb"), "gpu.image_reads must be true or false, not 1"),
        (("multiprocessors", "multiprocesors"), "unknown key 'multiprocesors' (did you mean 'multiprocessors'?)"),
        (("[gpu]", "[[gpu]]"), "gpu must be a table"),
    ],
)
def test_a_malformed_gpu_is_refused(change: tuple[str, str], part: str) -> None:
    with pytest.raises(TargetError, match="toy.toml: ") as refused:
        parse(GOOD + RATES.replace(*change), "toy.toml")
    assert part in str(refused.value)
