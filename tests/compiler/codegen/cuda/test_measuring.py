"""The command that checks and measures on a GPU: in small, through a driver without one, and what it makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import checks, measure
from benchmarks.gpu.rows import DRY, KERNELS, ROWS
from tests.compiler.codegen.cuda.driver import needs_compiler


@pytest.mark.large
@needs_compiler
@pytest.mark.timeout(900)
def test_its_dry_form_does_all_of_it(tmp_path: Path) -> None:
    assert command.main(["--dry", "--out", str(tmp_path)]) == 0
    figures = json.loads((tmp_path / "gpu.json").read_text())
    assert figures["dry"] and len(figures["checks"]) == 3 and not any(figures["checks"].values())
    assert list(figures["rows"]) == [row.name for row in DRY]
    assert {what: len(found["rows"]) for what, found in figures["kernels"].items()} == {"products": 3, "attention": 2}
    assert all(one["ms"] > 0 and one["apart"] < 2e-2 for what in KERNELS for one in figures["kernels"][what]["rows"])
    for row in DRY:
        found = figures["rows"][row.name]
        near, peers = (2e-2, 1) if row.language else (1e-5, 2)
        assert row.missing or (found["ms"] > 0 and found["loss_difference"] < near), found
        assert row.missing or len(found["peers"]) == peers, found
    assert not (tmp_path / "llama-small.pock").exists() and (tmp_path / "bert-small.pock").exists()
    text = (tmp_path / "gpu.md").read_text()
    assert "times mean nothing" in text and f"none: {DRY[-1].missing}" in text


def test_a_failed_check_is_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_checked", lambda course: {"samples": "wrong", "steps": ""})
    assert command.main(["--dry", "--rows", "7b-last5", "--out", str(tmp_path)]) == 1
    assert "- samples: wrong\n- steps: right\n" in (tmp_path / "gpu.md").read_text()


def test_a_kernel_is_told_as_a_part_of_the_librarys_speed() -> None:
    rows = [
        {"name": "a", "ms": 2.0, "peer_ms": 1.0, "apart": 1e-3},
        {"name": "b", "ms": 1.0, "peer_ms": 2.0, "apart": 0.0},
    ]
    kernels = {
        "products": {"rows": [*rows, {"name": "c", "error": "no time was left"}]},
        "attention": {"error": "no GPU"},
    }
    text = command.report({"dry": False, "target": "h200", "checks": {}, "rows": {}, "kernels": kernels}, [])
    assert "| a | 2.000 | 1.000 | 50 % | 1e-03 |" in text and "| c | none: no time was left |" in text
    assert "Geometric mean 100 %; wanted: each 85 %" in text and "Geometric mean no GPU" in text


def test_a_row_is_our_time_by_that_of_the_quickest_peer() -> None:
    peers = {"eager, bf16": {"ms": 4.0, "bytes": 1 << 20}, "default, bf16": {"ms": 2.0, "bytes": 3 << 20}}
    found = {"ms": 1.0, "bytes": 2 << 20, "peers": peers, "failed": {}, "loss_difference": 1e-6}
    assert measure.best(found) == ("default, bf16", 2.0)
    figures = {"dry": False, "target": "h200", "checks": {}, "rows": {ROWS[0].name: found}}
    line = command.report(figures, ROWS[:1]).splitlines()[-1]
    assert line.endswith("| 1.000 | 2.000 | default, bf16 | 0.50 | 0.55 | 2.0 | 3.0 | 1.0e-06 |")


@pytest.mark.parametrize(
    "listed, target",
    [
        ("NVIDIA H100 80GB HBM3, 9.0", "h100"),
        ("NVIDIA H200, 9.0", "h200"),
        ("NVIDIA GeForce RTX 4090, 8.9", "rtx-4090"),
        ("NVIDIA A100-SXM4-40GB, 8.0", "sm_80"),
        ("NVIDIA GH200 480GB, 9.0", "h200"),
        ("NVIDIA Something, 9.0", "sm_90a"),
    ],
)
def test_the_target_is_the_gpu_that_is_there(listed: str, target: str) -> None:
    assert command.target_of(listed) == target


def test_without_a_gpu_it_says_what_to_do() -> None:
    with pytest.raises(SystemExit, match="say --target, or --dry"):
        command.target_of("nothing")


@pytest.mark.parametrize("status, said", [(0, ""), (86, "an invalid write")])
def test_what_the_memory_checker_finds_is_told(
    status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / checks.SANITIZER
    program.write_text(f"#!/bin/sh\necho 'an invalid write'\nexit {status}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(checks, "model_command", lambda *_: ["model"])
    found = checks.sanitized(tmp_path / "m.pock")
    assert list(found) == list(checks.TOOLS) and {one.strip() for one in found.values()} == {said}
