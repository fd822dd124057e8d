"""What the executable refuses: one sentence, the documented exit code, nothing half-written."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.compiler.runtime.conftest import TOY, Run

Dataset = dict[str, np.ndarray]


def changed(**changes: np.ndarray | None) -> Dataset:
    merged = {**TOY.dataset(), **changes}
    return {name: value for name, value in merged.items() if value is not None}


def labels(value: float, dtype: str = "int64") -> np.ndarray:
    result = TOY.dataset()["labels"].astype(dtype)
    result[13] = value
    return result


def nan_input() -> np.ndarray:
    result = TOY.dataset()["input"]
    result[3, 2] = np.nan
    return result


DATASETS = [
    (changed(input=None, imput=TOY.dataset()["input"]), "has no tensor 'input' (did you mean 'imput'?)"),
    (changed(labels=None), "has no tensor 'labels'"),
    (changed(extra=np.zeros(20, np.float32)), "a tensor 'extra' that is no input of the model (known: input, labels)"),
    (changed(input=np.zeros((20, 4), np.float32)), "has shape [20, 4], the model needs [8, 5] with any number"),
    (changed(input=np.zeros((20, 5), np.float16)), "is F16, the model needs F32"),
    (changed(labels=labels(0)[:19]), "'labels' in data.safetensors has 19 samples, another tensor has 20"),
    (changed(labels=labels(np.nan, "float32")), "'labels' in data.safetensors holds a NaN at sample 13"),
    (changed(labels=labels(1.5, "float32")), "holds 1.5 at sample 13, which I64 cannot hold"),
    (changed(labels=labels(3)), "'labels' in data.safetensors holds 3 at sample 13; it must be 0 to 2"),
    (changed(labels=labels(-1)), "holds -1 at sample 13"),
    (changed(input=nan_input()), "'input' in data.safetensors holds a NaN at sample 3"),
    (changed(input=np.zeros((0, 5), np.float32), labels=np.zeros(0, np.int64)), "has no samples"),
]


@pytest.mark.parametrize(("dataset", "sentence"), DATASETS, ids=[sentence[:40] for _, sentence in DATASETS])
def test_datasets(dataset: Dataset, sentence: str, run: Run, tmp_path: Path) -> None:
    save_file(dataset, tmp_path / "data.safetensors")
    done = run("train", "--data", "data.safetensors", "--steps", 5, "--save", "w.safetensors", "--report", "r.json")
    assert (done.code, sentence in done.sentence) == (3, True), done
    assert "\n" not in done.sentence
    assert [path.name for path in tmp_path.iterdir()] == ["data.safetensors"]


def header(text: str, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text.encode() + data


def tensor(name: str = "a", dtype: str = "F32", shape: str = "[1]", offsets: str = "[0, 4]") -> str:
    return f'"{name}": {{"dtype": "{dtype}", "shape": {shape}, "data_offsets": {offsets}}}'


MALFORMED = [
    (b"", "is truncated"),
    (b"1234567", "is truncated"),
    (struct.pack("<Q", 1000) + b"{}", "is truncated: its header has 1000 bytes"),
    (struct.pack("<Q", 1 << 60) + b"{}", "impossibly long"),
    (header("[]"), "not a JSON object"),
    (header('{"a"'), "not valid JSON"),
    (header("{" + tensor() + "}x", bytes(4)), "there is text after its header"),
    (header("{" + tensor() + "}", bytes(3)), "is truncated: its header promises"),
    (header("{" + tensor() + "}", bytes(5)), "bytes after its last tensor"),
    (header("{" + tensor(dtype="F99") + "}", bytes(4)), "the header's entry for 'a' is malformed"),
    (header("{" + tensor(shape="[-1]") + "}", bytes(4)), "the header's entry for 'a' is malformed"),
    (header("{" + tensor(shape="[2]") + "}", bytes(4)), "the bytes of 'a' do not fit its shape"),
    (header("{" + tensor(shape=f"[{1 << 40}, {1 << 40}]") + "}", bytes(4)), "do not fit its shape"),
    (header("{" + tensor(offsets="[4, 0]") + "}", bytes(4)), "the header's entry for 'a' is malformed"),
    (header("{" + tensor() + "," + tensor() + "}", bytes(8)), "'a' occurs twice"),
    (header("{" + tensor() + "," + tensor("b", offsets="[2, 6]") + "}", bytes(6)), "overlap or leave gaps"),
    (header("{" + tensor(offsets="[4, 8]") + "}", bytes(8)), "overlap or leave gaps"),
    (header('{"__metadata__": ' + "[" * 50 + "}"), "its metadata is malformed"),
]


@pytest.mark.parametrize(("content", "sentence"), MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_tensor_files(content: bytes, sentence: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "d.safetensors").write_bytes(content)
    done = run("train", "--data", "d.safetensors", "--steps", 1)
    assert (done.code, sentence in done.sentence) == (3, True), done
    assert "\n" not in done.sentence


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_truncated_dataset(keep: float, run: Run, data: Path) -> None:
    whole = data.read_bytes()
    data.write_bytes(whole[: int(len(whole) * keep)])
    done = run("train", "--data", data, "--steps", 1)
    assert (done.code, "truncated" in done.sentence) == (3, True), done


def test_every_flipped_header_byte_ends_in_a_sentence(run: Run, data: Path) -> None:
    whole = data.read_bytes()
    for position in range(0, 8 + struct.unpack("<Q", whole[:8])[0], 3):
        broken = bytearray(whole)
        broken[position] ^= 0x11
        data.write_bytes(broken)
        done = run("train", "--data", data, "--steps", 1)
        assert done.code in (0, 3), (position, done)
        assert bool(done.sentence) == (done.code == 3)


COMMANDS = [
    ([], "say what to do: train, eval, predict, bench, generate or info"),
    (["trian"], "unknown entry point 'trian' (did you mean 'train'?)"),
    (["train", "--dta", "x"], "unknown option '--dta' (did you mean '--data'?)"),
    (["train", "--data"], "--data needs a value"),
    (["train", "--steps", "1"], "train needs --data"),
    (["train", "--data", "d"], "train needs --steps"),
    (["train", "--data", "d", "--steps", "0"], "--steps takes a whole number of at least 1, not '0'"),
    (["train", "--data", "d", "--steps", "3x"], "--steps takes a whole number of at least 1, not '3x'"),
    (["train", "--data", "d", "--steps", "-1"], "--steps takes a whole number"),
    (["train", "--data", "d", "--steps", "99999999999999999999"], "--steps takes a whole number"),
    (["train", "--data", "d", "--steps", "1", "--seed", "1", "--no-shuffle"], "exclude each other"),
    (["train", "--data", "d", "--steps", "1", "--checkpoint", "c"], "go together"),
    (["predict", "--data", "d"], "predict needs --out"),
    (["eval", "--data", "d", "--steps", "1"], "--steps is not an option of 'eval'"),
]


@pytest.mark.parametrize(("arguments", "sentence"), COMMANDS, ids=[" ".join(command) for command, _ in COMMANDS])
def test_command_lines(arguments: list[str], sentence: str, run: Run) -> None:
    done = run(*arguments)
    assert (done.code, sentence in done.sentence, done.events) == (2, True, []), done


def test_too_many_threads(run: Run, data: Path) -> None:
    done = run("train", "--data", data, "--steps", 1, "--threads", 5)
    assert (done.code, done.sentence) == (2, "5 threads are too many: this model was compiled for at most 4")


def test_missing_files(run: Run, data: Path) -> None:
    assert run("train", "--data", "none", "--steps", 1).sentence == "cannot read none: No such file or directory"
    assert run("train", "--data", data.parent, "--steps", 1).code == 4
    assert run("train", "--data", data, "--steps", 1, "--params", "none").code == 4
    unwritable = run("train", "--data", data, "--steps", 1, "--save", "no/such/folder/w")
    assert (unwritable.code, unwritable.losses) == (4, [])


def edit(change: Callable[[Dataset], object]) -> Dataset:
    params = TOY.params()
    change(params)
    return params


WEIGHTS = [
    (edit(lambda p: p.update(fc=p.pop("fc.bias"))), "which is not a parameter of this model"),
    (edit(lambda p: p.update({"fc.bias": np.zeros(4, np.float32)})), "has shape [4], the model needs [3]"),
    (edit(lambda p: p.update({"fc.bias": np.zeros(3)})), "is F64, the model needs F32"),
    (edit(lambda p: p.update(scale=np.ones(5, np.float32))), "frozen parameter 'scale' differs from the one"),
    ({}, "holds no tensor"),
]


@pytest.mark.parametrize(("weights", "sentence"), WEIGHTS, ids=[sentence[:30] for _, sentence in WEIGHTS])
def test_weights_that_do_not_fit(weights: Dataset, sentence: str, run: Run, data: Path, tmp_path: Path) -> None:
    save_file(weights, tmp_path / "w.safetensors")
    done = run("eval", "--data", data, "--load", "w.safetensors")
    assert (done.code, sentence in done.sentence) == (3, True), done


def test_params_that_lack_a_tensor(run: Run, data: Path, tmp_path: Path) -> None:
    params = TOY.params()
    save_file({"fc.weights": params["fc.weight"], "fc.bias": params["fc.bias"]}, tmp_path / "p.safetensors")
    done = run("eval", "--data", data, "--params", "p.safetensors")
    assert (done.code, done.sentence) == (3, "p.safetensors lacks 'fc.weight' (did you mean 'fc.weights'?)")


def test_divergence(run: Run, tmp_path: Path) -> None:
    dataset = TOY.dataset()
    save_file({**dataset, "input": dataset["input"] * np.float32(1e30)}, tmp_path / "huge.safetensors")
    done = run("train", "--data", "huge.safetensors", "--steps", 20, "--save", "w.safetensors")
    assert done.code == 6
    assert done.sentence.startswith("training diverged: the loss is")
    assert not (tmp_path / "w.safetensors").exists()
