"""The toolchain: the object cache, errors that name the kernel, reproducible output, and every target's runtime."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ziglang
from safetensors.numpy import save_file

from pockengine.codegen.native import toolchain
from pockengine.codegen.object_cache import ObjectCache
from pockengine.errors import ToolchainError
from pockengine.targets import get
from tests.compiler.runtime.conftest import TOY, Run
from tests.compiler.runtime.toy import Toy
from tests.sweeps import some

GOOD = "void k_one(void *const *arg, int task, int tasks) { *(int *)arg[0] = 1; }\n"
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wshadow", "-Wstrict-prototypes"]


def zig(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(Path(ziglang.__file__).parent / "zig"), "cc", *map(str, arguments)]
    environment = {"ZIG_GLOBAL_CACHE_DIR": str(toolchain.zig_cache()), **os.environ}  # as the toolchain's
    return subprocess.run(command, capture_output=True, text=True, cwd=toolchain.ZIG_FOLDER, env=environment)


def test_an_object_is_compiled_once(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    first = toolchain.compile_objects({"k_one": GOOD}, get("host"), tmp_path, lambda *counts: seen.append(counts))
    again = toolchain.compile_objects({"k_one": GOOD}, get("host"), tmp_path)
    other = toolchain.compile_objects({"k_one": GOOD}, get("raspberry-pi-4"), tmp_path)
    assert (first.cache_hits, again.cache_hits, other.cache_hits) == (0, 1, 0)
    assert first.paths == again.paths != other.paths
    assert seen == [(0, 1), (1, 1)]
    assert not list(tmp_path.glob("work-*"))


@pytest.mark.parametrize("name", ["host", "raspberry-pi-4", "apple-m1"])
def test_kernels_are_compiled_by_clang_as_zig_runs_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    run = toolchain._run

    def watched(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return run(command, folder, **environment)

    monkeypatch.setattr(toolchain, "_run", watched)
    toolchain._clang.cache_clear()
    sources = {"k_one": GOOD, "k_two": GOOD.replace("k_one", "k_two")}
    toolchain.compile_objects(sources, get(name), tmp_path)
    asked = [command for command in ran if command[1] == "cc"]
    told = [command for command in ran if command[1] == "clang"]
    assert len(asked) == 1 and len(told) == 2
    assert all("-Werror" in command and "-MF" not in command for command in told)


def test_where_zig_does_not_tell_it_compiles_the_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(cache: str) -> bytes:
        objects = toolchain.compile_objects(TOY.sources(), get("host"), tmp_path / cache)
        return toolchain.link_executable(objects, TOY.model_c(), get("host"), tmp_path / cache)

    told = program("cache")
    spaced = tmp_path / "a folder"
    spaced.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spaced))
    toolchain._clang.cache_clear()
    assert program("another folder") == told
    assert toolchain._clang(toolchain._kernel_unit("k", "", get("host")).options) is None
    toolchain._clang.cache_clear()


def test_a_damaged_or_colliding_entry_is_made_again(tmp_path: Path) -> None:
    (path,) = toolchain.compile_objects({"k_one": GOOD}, get("host"), tmp_path).paths.values()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert toolchain.compile_objects({"k_one": GOOD}, get("host"), tmp_path).cache_hits == 0
    assert path.read_bytes() == whole
    record = path.parent / "inputs.json"
    stored = json.loads(record.read_text())
    stored["inputs"]["source"] += " "
    record.write_text(json.dumps(stored))
    assert toolchain.compile_objects({"k_one": GOOD}, get("host"), tmp_path).cache_hits == 0
    assert toolchain.compile_objects({"k_one": GOOD}, get("host"), tmp_path).cache_hits == 1


def test_wide_vectors_stay_whole_on_cpus_that_clang_takes_for_slow_at_them(tmp_path: Path) -> None:
    target = replace(get("x86-64-v3"), cpu="rocketlake", features=(), vector_bytes=64)
    source, made = tmp_path / "add.c", tmp_path / "add.s"
    source.write_text(
        "typedef float vec __attribute__((vector_size(64), aligned(4)));\n"
        "void add(float *x) { *(vec *)x += *(vec *)(x + 16); }\n"
    )
    flags = ("-target", target.triple, f"-mcpu={target.cpu}", *toolchain.vector_flags(target))
    assert zig(*flags, "-O2", "-S", source, "-o", made).returncode == 0
    assert "zmm" in made.read_text()


def test_a_prepared_target_only_lacks_the_model(tmp_path: Path) -> None:
    toolchain.prepare(get("host"), tmp_path)
    ready = len(list(tmp_path.glob("objects/*/*")))
    objects = toolchain.compile_objects(TOY.sources(), get("host"), tmp_path)
    toolchain.link_executable(objects, TOY.model_c(), get("host"), tmp_path)
    toolchain.link_library(objects, TOY.model_c(), get("host"), tmp_path)
    assert len(list(tmp_path.glob("objects/*/*"))) == ready + len(TOY.sources()) + 1  # and model.c


def test_processes_share_a_cache(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from pockengine.codegen.object_cache import ObjectCache\n"
        "for i in range(100):\n"
        "    cache = ObjectCache(Path(sys.argv[1]))\n"
        "    with cache.workspace() as folder:\n"
        "        (folder / 'o').write_text(str(i)); cache.store({'source': str(i)}, folder / 'o')\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    for i in range(100):
        found = ObjectCache(tmp_path).find({"source": str(i)})
        assert found is not None and found.read_text() == str(i)


def test_an_error_names_the_kernel(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="'k_bad' does not compile for .*unit.c:1:1: error: unknown type name"):
        toolchain.compile_objects({"k_bad": "vod k_bad(void);\n"}, get("host"), tmp_path)


def test_a_missing_kernel_is_a_link_error(tmp_path: Path) -> None:
    objects = toolchain.compile_objects({"k_one": GOOD}, get("host"), tmp_path)
    with pytest.raises(ToolchainError, match=r"does not link: .*undefined symbol: k_"):
        toolchain.link_executable(objects, TOY.model_c(), get("host"))


def test_output_depends_only_on_inputs(tmp_path: Path) -> None:
    target = get("host")
    builds = []
    for cache in (tmp_path / "first", tmp_path / "a" / "longer" / "second"):
        objects = toolchain.compile_objects(TOY.sources(), target, cache)
        builds.append(toolchain.link_executable(objects, TOY.model_c(), target, cache))
    assert builds[0] == builds[1]
    assert str(tmp_path).encode() not in builds[0]
    assert len(builds[0]) < 300_000


@pytest.mark.parametrize("name", some(["snapdragon-8-gen-3", "x86-64-v3", "apple-m1"], 2))
def test_every_kind_of_target_links(name: str, tmp_path: Path) -> None:
    executable = TOY.build(tmp_path, get(name), library=True)
    magic = b"\xcf\xfa\xed\xfe" if name == "apple-m1" else b"\x7fELF"
    library = tmp_path / "bin" / toolchain.library_name(get(name))
    assert executable.read_bytes()[:4] == library.read_bytes()[:4] == magic


def test_aarch64_gives_the_hosts_losses(run: Run, data: Path, tmp_path: Path) -> None:
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None:
        pytest.skip("qemu-user is not installed")
    binary = TOY.build(tmp_path / "pi", get("raspberry-pi-4"))
    arguments = ("train", "--data", data, "--steps", 10, "--threads", 2)
    emulated = run(*arguments, binary=binary, prefix=(emulator,))
    assert emulated.code == 0, emulated.sentence
    np.testing.assert_allclose(emulated.losses, run(*arguments).losses, rtol=1e-4)


def test_the_core_needs_no_operating_system(tmp_path: Path) -> None:
    core, made = toolchain.RUNTIME / "core.c", tmp_path / "core.o"
    where = ["-target", "thumb-freestanding-eabi", "-mcpu=cortex_m7", "-ffreestanding", "-nostdinc"]
    headers = ["-isystem", Path(ziglang.__file__).parent / "lib" / "include"]
    done = zig(*where, *headers, *STRICT, "-Os", "-c", core, "-o", made)
    assert (done.returncode, done.stderr) == (0, "")
    assert made.stat().st_size < 4096


def test_the_header_is_c_and_cpp(tmp_path: Path) -> None:
    for suffix, flags in (("c", STRICT), ("cpp", ["-Wall", "-Wextra", "-Werror", "-nostdinc++"])):
        source = tmp_path / f"use.{suffix}"
        source.write_text('#include "model.h"\nint use(pock_session *s, const void *const *b, float *l);\n')
        done = zig("-I", toolchain.RUNTIME, *flags, "-c", source, "-o", tmp_path / "use.o")
        assert (done.returncode, done.stderr) == (0, "")


USE = """
#include <stdio.h>
#include "model.h"
int main(int count, char **paths) {
    static const float input[8 * 5] = {1, 2, 3};
    static const long long labels[8] = {2, 1};
    const void *batch[] = {input, labels};
    pock_session *session;
    float loss = 0;
    if (count != 3 || pock_open(&session, paths[1], paths[2], 2)) return 1;
    for (int step = 0; step < 3; step++) {
        if (pock_step(session, batch, &loss)) return 2;
        printf("%.9g\\n", (double)loss);
    }
    if (pock_get_tensor(session, "fc.wieght", &loss, 4) != 2) return 3;
    fputs(pock_message(session), stderr);
    pock_close(session);
    return 0;
}
"""


def test_a_c_program_uses_the_library(tmp_path: Path) -> None:
    host = get("host")
    TOY.build(tmp_path, host, library=True)
    (tmp_path / "use.c").write_text(USE)
    folder = tmp_path / "bin"
    where = ["-target", f"{host.arch}-linux-gnu.2.17", "-O2", "-s", "-I", toolchain.RUNTIME, f"-Wl,-rpath,{folder}"]
    built = zig(*where, *STRICT, tmp_path / "use.c", folder / "libmodel.so", "-o", tmp_path / "use")
    assert built.returncode == 0, built.stderr
    weights = [tmp_path / "params.safetensors", tmp_path / "consts.safetensors"]
    done = subprocess.run([tmp_path / "use", *weights], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "the model has no tensor 'fc.wieght' (did you mean 'fc.weight'?)")
    x, labels = np.zeros((8, 5), np.float32), np.zeros(8, np.int64)
    x[0, :3], labels[:2] = (1, 2, 3), (2, 1)
    losses, _ = TOY.reference([{"input": x, "labels": labels}] * 3)
    np.testing.assert_allclose([float(line) for line in done.stdout.split()], losses, rtol=1e-5)


def test_only_the_api_is_visible(tmp_path: Path) -> None:
    TOY.build(tmp_path, get("host"), library=True)
    library = ctypes.CDLL(str(tmp_path / "bin" / "libmodel.so"))
    assert library.pock_step
    for hidden in ("pock_run", "pock_model_data", "k_forward"):
        assert not hasattr(library, hidden)


def test_no_undefined_behaviour(tmp_path: Path, run: Run, data: Path) -> None:
    """The whole runtime under clang's sanitizer, which ends the process, on good and on malformed input."""
    toy = Toy(accumulate=2, noisy=True)
    for name, text in {**toy.sources(), "model": toy.model_c()}.items():
        (tmp_path / f"{name}.c").write_text(text)
    toy.write_weights(tmp_path)
    sources = [path for path in sorted(toolchain.RUNTIME.glob("*.c")) if path.name != "library.c"]
    flags = ["-target", get("host").triple, "-O2", "-s", "-static", "-fsanitize=undefined", "-fsanitize-trap=undefined"]
    done = zig(*flags, "-I", toolchain.RUNTIME, *sources, *sorted(tmp_path.glob("*.c")), "-o", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    binary = tmp_path / "model"
    save_file({"input": np.zeros((3, 4), np.float32)}, tmp_path / "bad.safetensors")
    (tmp_path / "worse.safetensors").write_bytes(b"\xff" * 40)
    checkpoint = ("--checkpoint", "c", "--checkpoint-every", 2)
    assert run("train", "--data", data, "--steps", 4, "--threads", 2, *checkpoint, "--profile", binary=binary).code == 0
    assert run("train", "--data", data, "--steps", 6, "--resume", "c", "--save", "w", binary=binary).code == 0
    assert run("eval", "--data", data, "--load", "w", binary=binary).code == 0
    assert run("predict", "--data", data, "--out", "o", binary=binary).code == 0
    assert run("bench", "--steps", 3, binary=binary).code == 0
    assert run("info", binary=binary).code == 0
    watched = ("--eval-data", data, "--eval-every", 2, "--patience", 2, "--save", "w", "--save-trained", "t")
    assert run("train", "--data", data, "--epochs", 3, *watched, *checkpoint, binary=binary).code == 0
    assert run("train", "--data", data, "--epochs", 5, *watched, "--resume", "c", binary=binary).code == 0
    assert run("train", "--data", "bad.safetensors", "--steps", 1, binary=binary).code == 3
    assert run("train", "--data", "worse.safetensors", "--steps", 1, binary=binary).code == 3
