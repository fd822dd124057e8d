"""`pock search`: from files to a recipe that `pock compile` takes, and sentences for what cannot work."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
import torch
from safetensors.numpy import save_file

from pockengine.artifact import Artifact
from pockengine.recipe import Recipe
from tests.compiler.cli.command import pock
from tests.compiler.search import networks

RECIPE = "loss: cross_entropy\noptimizer: {name: adamw, lr: 0.001}\nbatch: 8\nupdate: full\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A folder with a pre-trained model, a base recipe and two datasets."""
    folder = tmp_path_factory.mktemp("search")
    example, dynamic = torch.zeros(8, 1, 10, 10), {"input": {0: torch.export.Dim("batch")}}
    torch.onnx.export(
        networks.module(),
        (example,),
        folder / "bars.onnx",
        dynamo=True,
        optimize=False,
        external_data=False,
        verbose=False,
        input_names=["x"],
        output_names=["logits"],
        dynamic_shapes=dynamic,
    )
    onnx.checker.check_model(folder / "bars.onnx")
    (folder / "base.yaml").write_text(RECIPE)
    save_file(networks.samples(64), folder / "train.safetensors")
    save_file(networks.samples(48, seed=3), folder / "held-out.safetensors")
    return folder


@pytest.fixture
def run(capsys, monkeypatch):
    return lambda *arguments: pock(*arguments, capsys=capsys, monkeypatch=monkeypatch)


def arguments(files: Path, output: Path, *more: object) -> list[object]:
    return [
        "search",
        files / "bars.onnx",
        "--data",
        files / "train.safetensors",
        "--recipe",
        files / "base.yaml",
        "--target",
        "raspberry-pi-4",
        "-o",
        output,
        *more,
    ]


@pytest.fixture
def limit(files: Path, run) -> int:
    """In the middle between training the head and training everything."""
    code, out, _ = run(
        "check", files / "bars.onnx", "--recipe", files / "base.yaml", "--target", "raspberry-pi-4", "--json"
    )
    peaks = {name: found["predicted_peak_bytes"] for name, found in json.loads(out)["recipes"].items()}
    assert code == 0
    return (peaks["head"] + peaks["full"]) // 2


def peak_of(run, files: Path, recipe: Path) -> int:
    code, out, _ = run("check", files / "bars.onnx", "--recipe", recipe, "--target", "raspberry-pi-4", "--json")
    assert code == 0
    return json.loads(out)["estimate"]["predicted_peak_bytes"]


def test_a_recipe_that_compiles_within_the_limit(files: Path, limit: int, run, tmp_path: Path) -> None:
    output, report = tmp_path / "found.yaml", tmp_path / "report.html"
    given = (
        "--memory",
        limit,
        "--eval-data",
        files / "held-out.safetensors",
        "--lr",
        "--lr-steps",
        6,
        "--confirm",
        5,
        "--report",
        report,
        "--json",
    )
    code, out, err = run(*arguments(files, output, *given))
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["output"] == str(output) and found["recipe"] == output.read_text()
    assert (
        found["chosen"]["cost"]["peak_bytes"]
        == peak_of(run, files, output)
        <= limit
        < peak_of(run, files, files / "base.yaml")
    )
    assert {"found", "full", "head", "bias", "rates"} <= {one["name"] for one in found["compared"]}
    rates, recipe = found["rates"], Recipe.load(output)
    assert rates["steps"] == 6 and rates["trials"][0]["lr"] == 0.001
    assert {recipe.optimizer.lr, *(group.lr for group in recipe.optimizer.groups)} == set(rates["lr"].values())
    assert "# Tried for everything: 0.001 gave" in found["recipe"] and "Learning rates" in report.read_text()
    assert all(len(one["trained"]) == 3 for one in found["compared"])
    assert "<script" not in report.read_text() and "0.weight" in report.read_text()
    artifact = tmp_path / "bars.pock"
    code, _, _ = run(
        "compile", files / "bars.onnx", "--recipe", output, "--target", "raspberry-pi-4", "-o", artifact, "--json"
    )
    assert code == 0
    assert Artifact.open(artifact).summary["predicted_peak_bytes"] <= limit


def test_without_a_recipe_and_for_a_person(files: Path, run, tmp_path: Path) -> None:
    output = tmp_path / "found.yaml"
    given = [
        "search",
        files / "bars.onnx",
        "--data",
        files / "train.safetensors",
        "--batch",
        8,
        "--step-ms",
        1000,
        "--power",
        "6.4W",
        "--energy",
        3.2,
        "-o",
        output,
    ]
    code, out, err = run(*given)
    assert (code, err) == (0, "")
    assert "limit 3.2 J" in out and "limit 500 ms" in output.read_text()
    assert "found" in out and "1e+03 ms" not in out and str(output) in out
    assert Recipe.load(output).optimizer.name == "adamw"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            ("--memory", "256KiB"),
            "no scheme fits into 256 KiB (262144 bytes): the least that training a single parameter takes",
        ),
        (("--memory", "much"), "--memory takes a size such as 64MiB"),
        (("--step-ms", "1e-6"), "no scheme's step takes less than 1e-06 ms"),
        (("--energy", "1"), "it is not known what 'raspberry-pi-4' draws while it trains"),
        (("--energy", "1e-9", "--power", "6.4W"), "no scheme's step takes less than 1.5625e-07 ms"),
        (("--energy", "1", "--power", "report.json"), "'report.json' is neither watts"),
        (("--method", "measured"), "needs samples that were held out: give --eval-data"),
        (("--confirm", "5"), "needs samples that were held out: give --eval-data"),
        (("--channels", "fischer"), "channels are not chosen by 'fischer' (did you mean 'fisher'?)"),
        (("--rank", "0"), "the rank of an adapter is between 1 and 1024, not 0"),
        (("--rank", "many"), "--rank': Input should be a valid integer"),
        (("--rank", "4", "--method", "gradient"), "by Fisher information only, not by 'gradient': leave --rank out"),
        (("--method", "magic"), "there is no method 'magic'"),
        (("--prefer", "time-ish"), "there is no --prefer 'time-ish' (did you mean 'time'?)"),
        (("--target", "toaster"), "no target is called 'toaster'"),
        (("--lr", "--lr-steps", "0"), "--lr-steps': Input should be greater"),
        (("--eval-data", "none.safetensors"), "there is no dataset 'none.safetensors'"),
        (("--report", "nowhere/report.html"), "the folder 'nowhere' for the report does not exist"),
    ],
)
def test_what_cannot_work_is_one_sentence(files: Path, run, tmp_path: Path, more, sentence: str) -> None:
    output = tmp_path / "found.yaml"
    code, out, err = run(*arguments(files, output, *more))
    assert (code, out) == (2, "") and err.count("\n") == 1 and sentence in err
    assert not output.exists()


def test_labels_that_the_model_has_no_class_for(files: Path, run, tmp_path: Path) -> None:
    data = networks.samples(16)
    save_file({**data, "labels": data["labels"] + 1}, tmp_path / "bad.safetensors")
    code, _, err = run(
        "search", files / "bars.onnx", "--data", tmp_path / "bad.safetensors", "--batch", 8, "-o", tmp_path / "r.yaml"
    )
    assert code == 2 and "'labels' of the data has 4 at sample" in err
