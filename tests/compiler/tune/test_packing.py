"""Packs of trials: what they say of a device's candidates, here and under an emulator, and what they cannot be told."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import pockengine as pock
from pockengine.codegen.c import CBackend
from pockengine.codegen.common.draws import pick
from pockengine.codegen.tunable import PackLimits
from pockengine.compile.request import Request
from pockengine.compile.trials import LISTED, compile_trials
from pockengine.ir import Node
from pockengine.targets import Target, get
from pockengine.tune import FileStore, LocalStore, Result, write_entries
from pockengine.tune.packing import packed, unknown
from pockengine.tune.store import Entry
from pockengine.tune.workload import key_of, workloads_of
from tests.compiler.tune.workloads import DEPTHWISE, STRIDED, bare, product, relu_convolution, relu_product

THREADS = 2
NODES: tuple[Callable[[], Node], ...] = (
    lambda: product(37, 50, 1100),
    lambda: product(300, 300, 32),  # more numbers than are compared
    lambda: relu_product(33, 47, 65),
    lambda: bare("conv2d", "f32[1,14,14,32]", "f32[32,1,3,3]", **DEPTHWISE),
    lambda: bare("conv2d_dx", "f32[1,7,7,8]", "f32[8,16,3,3]", **STRIDED),
    lambda: relu_convolution(),
)
LIMITS = PackLimits(1 << 12, 20.0, 1e-4)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """Compiled kernels, shared by the tests of this file."""
    return tmp_path_factory.mktemp("kernels")


def chosen(target: Target, store: LocalStore) -> list[Any]:
    """A pack of all the nodes."""
    workloads = workloads_of([make() for make in NODES], target, THREADS, CBackend())
    return packed(unknown(workloads, store), store)


def program(target: Target, store: LocalStore, cache: Path, folder: Path) -> tuple[list[Any], Path, Path]:
    """The pack's workloads, its program and the file that it compares with."""
    pack = chosen(target, store)
    trials = [one.checked for one in pack]
    made = CBackend().pack(trials, target, THREADS, LIMITS, cache, lambda *_: None)
    file, wanted = folder / "model", folder / "params.safetensors"
    file.write_bytes(made.built.members["bin/model"])
    file.chmod(0o755)
    save_file({"wanted": made.numbers}, wanted)
    return pack, file, wanted


def run(file: Path, wanted: Path, *before: str, threads: int = THREADS) -> Any:
    """What a device's agent makes of it."""
    command = [*before, str(file), "bench", "--params", str(wanted), "--report", str(file.parent / "report.json")]
    done = subprocess.run([*command, "--threads", str(threads), "--steps", "6"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["start", *["trial"] * (len(events) - 2), "done"]
    report = events[-1]["report"]
    assert report == json.loads((file.parent / "report.json").read_text())
    return report


def check(pack: list[Any], report: Any) -> None:
    """Every candidate is right and has been timed."""
    places = [(index, number) for index, one in enumerate(pack) for number in range(len(one.candidates))]
    assert [(one["workload"], one["candidate"]) for one in report["trials"]] == places
    for one in report["trials"]:
        assert one["wrong"] == 0 and not one["overrun"], one
        assert 3 <= len(one["ms"]) <= 6 and min(one["ms"]) > 0
    assert len(report["step_ms"]["samples"]) >= 6


def test_a_pack_checks_and_times_all_its_candidates(cache, tmp_path):
    pack, file, wanted = program(get("host"), LocalStore(tmp_path), cache, tmp_path)
    assert len(pack) == len(NODES) and all(len(one.candidates) > 1 for one in pack)
    report = run(file, wanted)
    check(pack, report)
    assert report["threads"] == THREADS and run(file, wanted, threads=1)["threads"] == 1
    bound = {index: one.to_plain()["least_ms"] for index, one in enumerate(pack)}
    assert all(0 < bound[one["workload"]] < min(one["ms"]) for one in report["trials"])


def test_an_emulated_device_computes_what_the_reference_says(cache, tmp_path):
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    assert emulator, "install qemu-user-static"
    pack, file, wanted = program(get("raspberry-pi-4"), LocalStore(tmp_path), cache, tmp_path)
    check(pack, run(file, wanted, emulator))


def test_numbers_that_are_not_the_references_are_counted(cache, tmp_path):
    _, file, wanted = program(get("host"), LocalStore(tmp_path), cache, tmp_path)
    numbers = load_file(wanted)["wanted"]
    numbers[5] += 1  # of the first workload's only result
    save_file({"wanted": numbers}, wanted)
    wrong = {(one["workload"], one["candidate"]): one["wrong"] for one in run(file, wanted)["trials"]}
    assert wrong == {place: int(place[0] == 0) for place in wrong}


def test_a_pack_refuses_what_does_not_belong_to_it(cache, tmp_path):
    _, file, wanted = program(get("host"), LocalStore(tmp_path), cache, tmp_path)
    save_file({"wanted": np.zeros(7, np.float32)}, tmp_path / "other.safetensors")
    for arguments, code, said in (
        (["train"], 2, "all it does is 'bench'"),
        (["bench", "--steps", "3"], 2, "need --steps and --params"),
        (["bench", "--steps", "many", "--params", str(wanted)], 2, "whole number"),
        (["bench", "--threads", "3"], 2, "from 1 to 2"),
        (["bench", "--data", "x"], 2, "no option '--data'"),
        (["bench", "--steps", "3", "--params", str(tmp_path / "other.safetensors")], 3, "belongs to these trials"),
        (["bench", "--steps", "3", "--params", "nowhere"], 4, "nowhere"),
    ):
        done = subprocess.run([str(file), *arguments], capture_output=True, text=True)
        assert (done.returncode, said in done.stderr) == (code, True), (arguments, done)


def test_what_is_known_or_under_way_is_not_tried(tmp_path):
    store = LocalStore(tmp_path)
    workloads = workloads_of([make() for make in NODES], get("host"), THREADS, CBackend())
    first, second, third, *rest = workloads
    store.put(first.inputs, Result(first.tunable.candidates()[1].choice.to_plain(), 1.0, 2.0, "fast", 4, 0))
    store.put(second.inputs, Result({"of": "another version"}, 1.0, 2.0, "fast", 4, 0))
    assert unknown(workloads, store, {key_of(third.inputs)}) == [second, *rest]
    assert [one.workload for one in packed([second, *rest], store, 2)] == [second, rest[0]]


def test_operands_begin_where_a_target_wants_them(tmp_path):
    target = replace(get("host"), ram_alignment=256)
    for one in chosen(target, LocalStore(tmp_path)):
        trial = one.checked.trial
        assert all(offset % 256 == 0 for offset in (*trial.input_offsets, *trial.output_offsets))


def test_drawn_numbers_are_even_and_do_not_repeat():
    found = pick(3, 70_000, 7)
    counts = np.bincount(found, minlength=7)
    assert len(counts) == 7 and counts.min() > 9_500
    assert np.array_equal(pick(1003, 100, 7), found[1000:1100])
    assert np.mean(found[:-1] == found[1:]) < 0.16


def test_a_model_becomes_an_artifact_of_trials_that_runs(cache, tmp_path):
    graph, recipe = small_model()
    request = Request(graph, recipe, get("host"), THREADS)
    pack = compile_trials(request, LocalStore(tmp_path), cache=cache)
    assert pack is not None and pack.workloads == pack.artifact.manifest.summary["trials"] and not pack.left
    listed = json.loads(pack.artifact.read(LISTED))
    pack.artifact.save(tmp_path / "trials.pock")
    folder = pock.Artifact.open(tmp_path / "trials.pock").unpack(tmp_path / "cache")
    report = run(folder / "bin/model", folder / "params.safetensors")
    assert {one["workload"] for one in report["trials"]} == set(range(len(listed)))
    assert all(one["wrong"] == 0 for one in report["trials"])
    known = tmp_path / "known.jsonl"
    entries = [
        Entry(one["inputs"], Result(one["candidates"][1]["choice"], 1.0, 2.0, "fast", 4, 0, "fleet"), 5.0, 5.0)
        for one in listed
    ]
    assert write_entries(known, entries) == len(listed)
    store = FileStore(known)
    assert compile_trials(request, store, cache=cache) is None
    built = pock.compile(graph, recipe, threads=THREADS, tune="known", store=store, cache=cache)
    counted = built.summary["tuning"]
    assert (counted["hits"], counted["known_by"], counted["unknown"]) == (len(listed), {"fleet": len(listed)}, [])
    assert built.manifest.summary["tuned"] == "known"
    cold = pock.compile(graph, recipe, threads=THREADS, tune="known", store=LocalStore(tmp_path), cache=cache)
    told = cold.summary["tuning"]["unknown"]
    assert {one["key"] for one in told} == {one["key"] for one in listed}
    assert cold.summary["tuning"]["to_try"] == len(listed)
    assert sum(one["share"] for one in told) == pytest.approx(1, abs=0.01) and told[0]["layers"]


def small_model() -> tuple[Any, pock.Recipe]:
    """Two layers and how they are trained."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(48, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    graph = pock.from_torch(model, (torch.zeros(16, 48),))
    optimizer = {"name": "sgd", "lr": 0.1}
    recipe = {"loss": "cross_entropy", "optimizer": optimizer, "batch": 16, "update": [{"params": "*"}]}
    return graph, pock.Recipe.from_mapping(recipe)
