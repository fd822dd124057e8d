"""Training over epochs: every way to end one against PyTorch's loader, accumulation, evaluation, early stopping."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch.utils.data import DataLoader, TensorDataset

from pockengine.targets import get
from tests.compiler.runtime.conftest import TOY, Done, Run
from tests.compiler.runtime.toy import Toy

Weights = dict[str, np.ndarray]


class Torch:
    """The toy in PyTorch: momentum for the weight, none for the bias."""

    def __init__(self, toy: Toy) -> None:
        params = {name: torch.from_numpy(value) for name, value in toy.params().items()}
        self.scale = params["scale"]
        self.weight, self.bias = params["fc.weight"].requires_grad_(), params["fc.bias"].requires_grad_()
        groups = [{"params": [self.weight], "momentum": 0.9}, {"params": [self.bias], "momentum": 0.0}]
        self.optimizer = torch.optim.SGD(groups, lr=toy.rate)

    def step(self, batches: list[list[torch.Tensor]]) -> float:
        """One optimizer step over micro-batches of input, labels and weights; the mean of their losses."""
        losses = []
        for x, labels, weights in batches:
            each = torch.nn.functional.cross_entropy(
                (x * self.scale) @ self.weight.T + self.bias, labels, reduction="none"
            )
            losses.append((each * weights).sum() / weights.sum())
        loss = torch.stack(losses).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def torch_losses(toy: Toy, dataset: Weights, epochs: int, drop: bool) -> tuple[list[float], Torch]:
    weights = dataset.get("sample_weight", np.ones(len(dataset["labels"]), np.float32))
    tensors = [torch.from_numpy(value) for value in (dataset["input"], dataset["labels"], weights)]
    model = Torch(toy)
    loader = DataLoader(TensorDataset(*tensors), batch_size=toy.batch * toy.accumulate, drop_last=drop)
    batches = [batch for _ in range(epochs) for batch in loader]
    splits = [list(zip(*(part.split(toy.batch) for part in batch), strict=True)) for batch in batches]
    return [model.step([list(part) for part in split]) for split in splits], model


def trained(toy: Toy, run: Run, tmp_path: Path, dataset: Weights, *arguments: object) -> Done:
    binary = toy.build(tmp_path / "toy", get("host"))
    save_file(dataset, tmp_path / "d.safetensors")
    done = run("train", "--data", "d.safetensors", *arguments, "--save", "w.safetensors", binary=binary)
    assert done.code == 0, done.sentence
    return done


@pytest.mark.parametrize(
    ("toy", "samples", "weighted"),
    [
        (Toy(last_batch="drop"), 20, False),
        (Toy(last_batch="partial"), 20, False),
        (Toy(last_batch="partial"), 16, False),
        (Toy(last_batch="partial"), 20, True),
        (Toy(last_batch="partial"), 5, False),
        (Toy(last_batch="drop", accumulate=3), 50, False),
    ],
    ids=["drop", "partial", "full", "weighted", "less than a batch", "accumulate"],
)
def test_epochs_are_those_of_pytorch(toy: Toy, samples: int, weighted: bool, run: Run, tmp_path: Path) -> None:
    dataset = dict(toy.dataset(samples))
    if weighted:
        dataset["sample_weight"] = np.random.default_rng(2).uniform(0, 2, samples).astype(np.float32)
    expected, model = torch_losses(toy, dataset, epochs=3, drop=toy.last_batch == "drop")
    done = trained(toy, run, tmp_path, dataset, "--epochs", 3, "--no-shuffle")
    np.testing.assert_allclose(done.losses, expected, rtol=1e-4)
    assert done.events[0]["steps"] == len(expected)
    saved = load_file(tmp_path / "w.safetensors")
    np.testing.assert_allclose(saved["fc.weight"], model.weight.detach().numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(saved["fc.bias"], model.bias.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_accumulated_steps_go_on_in_the_next_epoch(run: Run, tmp_path: Path) -> None:
    """Steps of 16 samples through 20: 3 of them end the second epoch with 8 samples of the third."""
    toy = Toy(accumulate=2)
    dataset = toy.dataset(20)
    stream = {name: np.concatenate([value] * 3)[:48] for name, value in dataset.items()}
    expected, _ = torch_losses(toy, stream, epochs=1, drop=True)
    done = trained(toy, run, tmp_path, dict(dataset), "--epochs", 2, "--no-shuffle")
    np.testing.assert_allclose(done.losses, expected, rtol=1e-4)
    assert [event["epoch"] for event in done.events if event["event"] == "step"] == [1, 1, 2]


@pytest.mark.parametrize("last_batch", ["wrap", "drop", "partial"])
def test_a_shuffled_epoch_has_every_sample_once(last_batch: str, run: Run, tmp_path: Path) -> None:
    """Batches of two; without learning the sum of losses tells which samples an epoch had."""
    toy = Toy(batch=2, rate=0.0, last_batch=last_batch)
    done = trained(toy, run, tmp_path, dict(toy.dataset(6)), "--epochs", 4, "--seed", 3)
    epochs = [
        [e["loss"] for e in done.events if e["event"] == "step" and e["epoch"] == epoch] for epoch in (1, 2, 3, 4)
    ]
    assert [len(epoch) for epoch in epochs] == [3] * 4
    np.testing.assert_allclose([sum(epoch) for epoch in epochs], sum(epochs[0]), rtol=1e-5)
    assert len({tuple(epoch) for epoch in epochs}) > 1


def test_dropped_samples_differ_from_epoch_to_epoch(run: Run, tmp_path: Path) -> None:
    toy = Toy(batch=1, accumulate=4, rate=0.0, last_batch="drop")
    done = trained(toy, run, tmp_path, dict(toy.dataset(7)), "--epochs", 30, "--seed", 1)
    assert len(done.losses) == 30
    assert len(Counter(done.losses)) > 10


def test_steps_and_epochs_whichever_ends_first(run: Run, data: Path) -> None:
    assert len(run("train", "--data", data, "--steps", 4, "--epochs", 100).losses) == 4
    start = run("train", "--data", data, "--steps", 100, "--epochs", 2).events[0]
    assert (start["steps"], start["epochs"]) == (5, 2)


def evals(done: Done) -> list[dict[str, object]]:
    return [event for event in done.events if event["event"] == "eval"]


def test_evaluations_during_training_are_those_of_eval(run: Run, data: Path, tmp_path: Path) -> None:
    save_file(TOY.dataset(31), tmp_path / "e.safetensors")
    watched = ("train", "--data", data, "--eval-data", "e.safetensors")
    done = run(*watched, "--epochs", 3, "--eval-every", 3)
    assert [event["step"] for event in evals(done)] == [3, 6, 8]
    assert [event["step"] for event in evals(run(*watched, "--epochs", 3))] == [3, 5, 8]
    assert done.losses == run("train", "--data", data, "--epochs", 3).losses
    for event in evals(done):
        run("train", "--data", data, "--steps", event["step"], "--save", "w.safetensors")
        (alone,) = evals(run("eval", "--data", "e.safetensors", "--load", "w.safetensors"))
        assert {key: event[key] for key in ("samples", "loss", "accuracy")} == {
            key: alone[key] for key in ("samples", "loss", "accuracy")
        }
    keys = ("step", "epoch", "samples", "loss", "accuracy", "best")
    assert done.report["evaluations"] == [{key: event[key] for key in keys} for event in evals(done)]
    assert done.report["stopped_early"] is False


@pytest.fixture
def misleading(run: Run, tmp_path: Path) -> tuple[object, ...]:
    """A training whose evaluation soon gets worse: the labels to evaluate on are noise."""
    dataset = dict(TOY.dataset(20))
    save_file(dataset, tmp_path / "d.safetensors")
    wrong = np.random.default_rng(5).integers(0, TOY.classes, 20)
    save_file({**dataset, "labels": wrong}, tmp_path / "e.safetensors")
    return ("train", "--data", "d.safetensors", "--eval-data", "e.safetensors", "--eval-every", 1)


def test_early_stopping_keeps_the_best_weights(misleading: tuple[object, ...], run: Run, tmp_path: Path) -> None:
    everything = [float(str(event["loss"])) for event in evals(run(*misleading, "--steps", 60))]
    expected_stop = expected_best = 0
    best = np.inf
    for step, loss in enumerate(everything, 1):
        if loss < best:
            best, expected_best = loss, step
        if step - expected_best == 4:
            expected_stop = step
            break
    assert 1 <= expected_best < expected_stop < 60
    done = run(
        *misleading, "--steps", 60, "--patience", 4, "--save", "w.safetensors", "--save-trained", "t.safetensors"
    )
    assert len(done.losses) == expected_stop
    (stopped,) = [event for event in done.events if event["event"] == "stopped"]
    assert (stopped["step"], stopped["best_step"], stopped["best_loss"]) == (expected_stop, expected_best, best)
    assert (done.report["stopped_early"], done.report["best_step"]) == (True, expected_best)
    run("train", "--data", "d.safetensors", "--steps", expected_best, "--save", "best.safetensors")
    assert (tmp_path / "w.safetensors").read_bytes() == (tmp_path / "best.safetensors").read_bytes()
    only = load_file(tmp_path / "t.safetensors")
    assert set(only) == {"fc.weight", "fc.bias"}
    assert only["fc.weight"].tobytes() == load_file(tmp_path / "best.safetensors")["fc.weight"].tobytes()
    names = {"d", "e", "w", "t", "best"}
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.safetensors" for name in names}


def test_trained_tensors_load_over_the_rest(run: Run, data: Path) -> None:
    run("train", "--data", data, "--steps", 9, "--save", "w.safetensors", "--save-trained", "t.safetensors")
    whole, part = (evals(run("eval", "--data", data, "--load", f"{name}.safetensors")) for name in "wt")
    assert whole == part


def test_the_seed_decides_what_is_drawn(run: Run, tmp_path: Path) -> None:
    toy = Toy(noisy=True)
    dataset = dict(toy.dataset(20))
    first = trained(toy, run, tmp_path, dataset, "--steps", 4, "--no-shuffle", "--seed", 1).losses
    binary = tmp_path / "toy" / "bin" / "model"
    arguments = ("train", "--data", "d.safetensors", "--steps", 4, "--no-shuffle")
    assert run(*arguments, "--seed", 1, binary=binary).losses == first
    assert run(*arguments, "--seed", 2, binary=binary).losses != first
    assert run("bench", "--steps", 2, binary=binary).code == 0


BAD = [
    (["--epochs", "0"], 2, "--epochs takes a whole number of at least 1, not '0'"),
    ([], 2, "train needs --steps or --epochs"),
    (["--epochs", "1", "--patience", "2"], 2, "--patience needs --eval-data"),
    (["--epochs", "1", "--eval-every", "2"], 2, "--eval-every needs --eval-data"),
    (["--epochs", "1", "--eval-data", "unlabelled"], 3, "unlabelled has no tensor 'labels'"),
    (["--epochs", "1", "--eval-data", "none"], 4, "cannot read none: No such file or directory"),
    (["--epochs", "1", "--save-trained", "w"], 2, "--save and --save-trained name the same file"),
    (["--epochs", "9223372036854775807"], 2, "--epochs 9223372036854775807 are more steps than can be counted"),
    (["--epochs", "1", "--save-trained", "no/w"], 4, "cannot write no/w: No such file or directory"),
]


@pytest.mark.parametrize(("arguments", "code", "sentence"), BAD, ids=[" ".join(arguments) for arguments, _, _ in BAD])
def test_bad_training_options(
    arguments: list[str], code: int, sentence: str, run: Run, data: Path, tmp_path: Path
) -> None:
    save_file({"input": TOY.dataset()["input"]}, tmp_path / "unlabelled")
    done = run("train", "--data", data, "--save", "w", *arguments)
    assert (done.code, done.sentence.startswith(sentence), done.events) == (code, True, []), done
    assert {path.name for path in tmp_path.iterdir()} == {"data.safetensors", "unlabelled"}


def test_less_data_than_one_step(run: Run, tmp_path: Path) -> None:
    toy = Toy(last_batch="drop", accumulate=2)
    binary = toy.build(tmp_path / "toy", get("host"))
    save_file(toy.dataset(15), tmp_path / "d.safetensors")
    done = run("train", "--data", "d.safetensors", "--epochs", 2, binary=binary)
    assert (done.code, done.events) == (3, [])
    assert done.sentence.startswith("d.safetensors has 15 samples, fewer than the 16 of one step; compile with")


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (np.full(20, -1, np.float32), "'sample_weight' in d.safetensors holds -1 at sample 0"),
        (np.full(20, np.inf, np.float32), "'sample_weight' in d.safetensors holds inf at sample 0"),
        (np.zeros(20, np.float32), "is 0 for all samples of a batch: leave such samples out"),
        (np.ones((20, 1), np.float32), "has shape [20, 1], the model needs [8]"),
    ],
    ids=["negative", "infinite", "zero", "shape"],
)
def test_bad_sample_weights(weights: np.ndarray, sentence: str, run: Run, tmp_path: Path) -> None:
    binary = Toy(last_batch="partial").build(tmp_path / "toy", get("host"))
    save_file({**TOY.dataset(20), "sample_weight": weights}, tmp_path / "d.safetensors")
    done = run("train", "--data", "d.safetensors", "--epochs", 1, "--save", "w", binary=binary)
    assert (done.code, sentence in done.sentence) == (3, True), done
    assert not (tmp_path / "w").exists()
