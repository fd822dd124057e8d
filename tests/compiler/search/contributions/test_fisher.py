"""Fisher information and its relatives against PyTorch's autograd."""

from __future__ import annotations

import numpy as np
import pytest

from pockengine.errors import DataError, PockError
from pockengine.search.contributions import CRITERIA, Work, fisher
from pockengine.search.contributions.gradients import GradientStatistics, Moments, by_channel, gradient_statistics
from tests.compiler.search.contributions.models import Task, task


def summed(task: Task, name: str, squares: np.ndarray) -> np.ndarray:
    """Of a unit's numbers, the sum for each input channel or over all."""
    unit = task.space.units[task.space.index[name]]
    others = tuple(axis for axis in range(squares.ndim) if axis != unit.axis)
    return squares.sum(axis=others).reshape(-1) if unit.axis is not None else squares.sum().reshape(1)


@pytest.mark.parametrize("name", ["images", "words"])
def test_with_single_samples_it_is_the_mean_of_their_squared_gradients(name: str) -> None:
    one = task(name, 1)
    data = {key: array[:12] for key, array in one.train.items()}
    statistics = gradient_statistics(one.space, data)
    assert (statistics.batches, statistics.batch) == (12, 1)
    each = [one.gradients(slice(n, n + 1)) for n in range(12)]
    for unit in one.space.units:
        squares = np.mean([summed(one, unit.name, found[unit.name] ** 2) for found in each], axis=0)
        np.testing.assert_allclose(statistics.fisher(unit.name), squares, rtol=2e-4, atol=1e-9)
        weight = dict(one.module.named_parameters())[unit.name].detach().numpy().astype(np.float64)
        scaled = np.mean([summed(one, unit.name, weight * found[unit.name]) ** 2 for found in each], axis=0) / 2
        np.testing.assert_allclose(statistics.activation_fisher(unit.name), scaled, rtol=2e-3, atol=1e-9)


def test_scaling_a_channel_of_the_input_is_scaling_its_weights() -> None:
    """What `activation_fisher` rests on: Σ a·∂loss/∂a of TinyTrain, with PyTorch's gradient of the activation."""
    import torch
    from torch.nn import functional as F

    one = task("images", 1)
    module, found = one.module, []
    for n in range(12):
        x, label = torch.tensor(one.train["x"][n : n + 1]), torch.tensor(one.train["labels"][n : n + 1])
        hidden = F.relu(module.norm(module.stem(x)))
        read = F.relu(module.grouped(F.relu(module.depthwise(hidden)))).detach().requires_grad_()
        loss = F.cross_entropy(module.head(F.relu(module.point(read)).mean((2, 3))), label)
        (gradient,) = torch.autograd.grad(loss, read)
        found.append(((read * gradient).sum((2, 3)).detach().numpy()[0].astype(np.float64)) ** 2)
    data = {key: array[:12] for key, array in one.train.items()}
    statistics = gradient_statistics(one.space, data)
    np.testing.assert_allclose(
        statistics.activation_fisher("point.weight"), np.mean(found, 0) / 2, rtol=2e-3, atol=1e-9
    )


@pytest.mark.parametrize("name", ["images", "words"])
def test_with_batches_mean_and_spread_are_told_apart(name: str) -> None:
    """The textbook's unbiased estimates from PyTorch's gradients of the same batches."""
    four = task(name, 4)
    statistics = gradient_statistics(four.space, four.train, work=Work(seed=5))
    order = np.random.default_rng(5).permutation(48).reshape(12, 4)
    each = [four.gradients(chosen) for chosen in order]
    for unit in four.space.units:
        stack = np.stack([found[unit.name] for found in each])
        spread, mean = stack.var(axis=0, ddof=1), stack.mean(axis=0)
        signal = summed(four, unit.name, mean**2 - spread / 12)
        scale = summed(four, unit.name, mean**2).max()
        np.testing.assert_allclose(
            statistics.signal(unit.name), np.maximum(signal, 0), rtol=1e-3, atol=1e-12 + 1e-4 * scale
        )
        of_a_sample = signal + 4 * summed(four, unit.name, spread)
        np.testing.assert_allclose(statistics.fisher(unit.name), of_a_sample, rtol=1e-3, atol=1e-12 + 1e-4 * scale)


def test_the_estimate_from_batches_is_right_on_average() -> None:
    rng = np.random.default_rng(0)
    mean, spread, batch, batches = 0.7, 2.0, 8, 6
    found = []
    for _ in range(4000):
        gradients = rng.normal(mean, spread, (batches, batch, 5)).mean(axis=1)
        squares, of_mean = (gradients**2).sum(axis=1).mean(), (gradients.mean(axis=0) ** 2).sum()
        square, of_mean = np.array([squares]), np.array([of_mean])
        one = Moments(square, of_mean, square, of_mean)
        statistics = GradientStatistics({"w": one}, batches, batch)
        found.append((statistics.fisher("w")[0], statistics._signal(one.squares, one.mean)[0]))
    of_a_sample, signal = np.mean(found, axis=0)
    assert abs(of_a_sample / (5 * (mean**2 + spread**2)) - 1) < 0.02
    assert abs(signal / (5 * mean**2) - 1) < 0.02


@pytest.mark.parametrize(
    ("criterion", "channels"),
    [
        *((criterion, channels) for criterion in CRITERIA for channels in ("magnitude", "fisher")),
        ("parameters", "gradient"),
        ("parameters", "activation"),
    ],
)
def test_gains_are_of_the_channels_that_the_recipe_trains(criterion: str, channels: str) -> None:
    from pockengine.recipe import Channels, resolve

    four = task("images", 4)
    found = fisher(four.space, four.train, criterion, channels, batches=4)
    statistics = gradient_statistics(four.space, four.train, batches=4)
    assert found.provenance["batches"] == 4
    assert set(found.importance) == (
        set()
        if channels == "magnitude"
        else {"stem.weight", "depthwise.weight", "grouped.weight", "point.weight", "head.weight"}
    )
    for place, unit in enumerate(four.space.units):
        value = CRITERIA[criterion](statistics, unit.name)
        assert found.gain(place, 0) == 0.0
        np.testing.assert_allclose(found.gain(place, len(unit.shares) - 1), value.sum())
        for option in range(1, len(unit.shares) - 1):
            choice = tuple(option if other == place else 0 for other in range(len(four.space.units)))
            scheme = resolve(four.space.recipe(choice, found.importance), four.space.graph)
            trained = scheme.of(unit.name)
            assert isinstance(trained, Channels)
            assert len(trained.indices) == unit.channels(option)
            np.testing.assert_allclose(found.gain(place, option), value[list(trained.indices)].sum())


def test_more_channels_by_fisher_bring_at_least_as_much_as_by_magnitude() -> None:
    four = task("words", 4)
    by_magnitude, by_fisher = (fisher(four.space, four.train, channels=by) for by in ("magnitude", "fisher"))
    assert (by_fisher.flat >= by_magnitude.flat - 1e-12).all()
    assert (by_fisher.flat > by_magnitude.flat + 1e-9).any()


def test_a_kill_loses_nothing_that_was_kept(tmp_path, monkeypatch) -> None:
    from pockengine.search.contributions import kept

    monkeypatch.setattr(kept, "_EVERY", 0.0)
    four = task("images", 4)
    whole = fisher(four.space, four.train)
    seen = []

    def stop(stage: str, done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fisher(four.space, four.train, work=Work(folder=tmp_path, progress=stop))
    assert seen == [0, 1, 2, 3, 4, 5]
    seen.clear()
    again = fisher(four.space, four.train, work=Work(folder=tmp_path, progress=lambda *said: seen.append(said[1])))
    assert seen == [5, 6, 7, 8, 9, 10, 11, 12]
    assert again.gains == whole.gains
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:1000])
    assert fisher(four.space, four.train, work=Work(folder=tmp_path)).gains == whole.gains, (
        "a damaged file is made anew"
    )


def test_the_time_ends_it_with_two_batches_at_least() -> None:
    four = task("images", 4)
    assert fisher(four.space, four.train, work=Work(seconds=0.0)).provenance["batches"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: {**data, "labels": data["labels"][:4], "x": data["x"][:4]}, "one batch of 4, and two are needed"),
        (lambda data: {"labels": data["labels"]}, "lack 'x'"),
        (lambda data: {**data, "x": data["x"][:, :2]}, r"'x' of the samples is \[48, 2, 8, 8\]"),
        (lambda data: {**data, "x": data["x"][:40]}, r"different numbers of samples: \[40, 48\]"),
        (lambda data: {**data, "x": data["x"] * np.float32("inf")}, "not finite"),
        (lambda data: {**data, "labels": data["labels"] + 7}, "labels"),
        (lambda data: {key: array[:3] for key, array in data.items()}, "have 3 samples, and one step takes 4"),
    ],
)
def test_unfit_data_are_refused(change, message: str) -> None:
    four = task("images", 4)
    with pytest.raises(DataError, match=message):
        fisher(four.space, change(four.train))


def test_unknown_criteria_and_channels_are_refused() -> None:
    four = task("images", 4)
    with pytest.raises(PockError, match="did you mean 'parameters'"):
        fisher(four.space, four.train, "parameter")
    with pytest.raises(PockError, match="channels are not chosen by 'fischer' .did you mean 'fisher'"):
        fisher(four.space, four.train, channels="fischer")


def test_sums_by_channel() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((3, 4, 5)).astype(np.float32) for _ in range(2))
    np.testing.assert_allclose(by_channel(a, b, 1), (a.astype(np.float64) * b).sum((0, 2)))
    np.testing.assert_allclose(by_channel(a, b, None), [(a.astype(np.float64) * b).sum()])
    np.testing.assert_allclose(by_channel(a[0, 0, 0], b[0, 0, 0], None), [float(a[0, 0, 0]) * float(b[0, 0, 0])])
