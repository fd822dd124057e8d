"""The transfer tasks that schemes are compared on: the same for a seed, balanced, no sample in both splits."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.tasks.models import BATCH, DOMAINS, MODELS, TASKS
from benchmarks.tasks.sentences import AND, BUT, THOUGH, Meaning, Question
from benchmarks.tasks.task import HELD_OUT, Split, balanced
from tests.sweeps import some


def rows(split: Split) -> list[bytes]:
    """Each sample as bytes."""
    (values,) = split.inputs.values()
    return [row.tobytes() for row in values]


@pytest.mark.parametrize("name", some(TASKS, 3))
def test_a_task(name: str) -> None:
    task = TASKS[name]
    data, again = task.data(1), task.data(1)
    for split, same in ((data.train, again.train), (data.held_out, again.held_out)):
        assert rows(split) == rows(same) and np.array_equal(split.labels, same.labels)
    everything = rows(data.train) + rows(data.held_out)
    assert len(set(everything)) == len(everything), "a sample is there twice"
    assert (len(data.train), len(data.held_out)) == (task.samples, HELD_OUT)
    assert task.classes <= DOMAINS[task.domain].classes
    (values,) = data.train.inputs.values()
    assert np.isfinite(values).all() and values.dtype in (np.float32, np.int64)

    for split in (data.train, data.held_out):
        counts = np.bincount(split.labels.reshape(-1), minlength=task.classes)
        assert len(counts) == task.classes and counts.all()
        if split.labels.ndim == 1:
            assert np.ptp(counts) <= 2


@pytest.mark.parametrize("name", ["digits", "new-user", "asides"])
def test_another_seed_draws_other_samples(name: str) -> None:
    assert rows(TASKS[name].data(1).train) != rows(TASKS[name].data(2).train)


def test_no_digit_is_in_both_splits() -> None:
    """Two pictures of one digit would differ, so what they are drawn from is compared."""
    from benchmarks.tasks import digits

    places: list[list[bytes]] = []

    def seen(images: np.ndarray, chance: np.random.Generator, noise: float, holes: int) -> np.ndarray:
        places.append([image.tobytes() for image in images])
        return np.zeros((len(images), 3, 2, 2), np.float32)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digits, "_seen", seen)
        for task in digits.TASKS:
            task.data(0)
    for drawn in places:
        assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("name", DOMAINS)
def test_a_domain_is_drawn_alike_from_equal_chance(name: str) -> None:
    first, second = (DOMAINS[name].draw(96, np.random.default_rng(5)) for _ in range(2))
    assert rows(first) == rows(second) and np.array_equal(first.labels, second.labels)
    assert first.labels.max() < DOMAINS[name].classes
    assert sum(task.domain == name for task in TASKS.values()) >= 2, "too few tasks to adapt to"


def test_every_task_has_a_model_and_every_model_a_task() -> None:
    assert {model.domain for model in MODELS.values()} == set(DOMAINS) == {task.domain for task in TASKS.values()}
    assert sum(task.domain == "images" for task in TASKS.values()) >= 8


def test_labels_are_balanced_and_so_is_each_beginning() -> None:
    labels = balanced(103, 5, np.random.default_rng(0))
    for end in (5, 50, 103):
        assert np.ptp(np.bincount(labels[:end], minlength=5)) <= 1


def test_what_sentences_mean() -> None:
    """THING is [NOT] OPINION joint THING is [NOT] OPINION: after `but` the second clause counts, else the first."""
    meaning = Meaning(
        topics=np.array([[0, 1], [2, 3], [1, 1]]),
        good=np.array([[True, True], [True, False], [False, False]]),
        turned=np.array([[False, True], [False, False], [True, False]]),
        joint=np.array([BUT, THOUGH, AND]),
    )
    assert Question.FIRST.label(meaning).tolist() == [0 * 2 + 1, 2 * 2 + 1, 1 * 2 + 1]
    assert Question.SECOND.label(meaning).tolist() == [1 * 2 + 0, 3 * 2 + 0, 1 * 2 + 0]
    assert Question.POINT.label(meaning).tolist() == [1 * 2 + 0, 2 * 2 + 1, 1 * 2 + 1]
    assert Question.ASIDE.label(meaning).tolist() == [0 * 2 + 1, 3 * 2 + 0, 1 * 2 + 0]
    assert Question.BOTH.label(meaning).tolist() == [2, 2, 2]


def test_answers_are_the_last_word() -> None:
    split = TASKS["asides"].data(0).train.at(slice(0, BATCH))
    told = MODELS["llama/sentences"].samples_of(split)
    (ids,) = told.inputs.values()
    assert ids.shape == told.labels.shape == (BATCH, split.inputs["input_ids"].shape[1] + 1)
    assert not ids[:, -1].any(), "the answer would be there to read"
    assert (told.labels[:, :-1] < 0).all() and np.ptp(told.labels[:, -1] - split.labels) == 0
