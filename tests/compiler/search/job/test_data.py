"""The user's data: what does not fit is refused at once, with a sentence that says what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from pockengine.errors import DataError
from pockengine.recipe import Recipe
from pockengine.search import Space
from pockengine.search.job import checked_data, read_dataset
from pockengine.targets import get
from tests.compiler.search import networks


@pytest.fixture(scope="module")
def space() -> Space:
    return Space.of(networks.graph(), Recipe("cross_entropy", "sgd"))


def given(space: Space, **changes) -> dict:
    data = networks.named(networks.samples(20), space.graph)
    return {name: array for name, array in {**data, **changes}.items() if array is not None}


def checked(space: Space, data: dict) -> dict:
    return checked_data(space, get("host"), data, "data")


def test_good_data_come_in_the_types_of_the_step(space: Space) -> None:
    data = given(space)
    name = space.graph.inputs[0].name
    found = checked(
        space, {name: data[name].astype(np.float64), "labels": data["labels"].astype(np.int32), "more": np.ones(3)}
    )
    assert set(found) == {name, "labels"}
    assert found[name].dtype == np.float32 and found["labels"].dtype == np.int64
    np.testing.assert_array_equal(found["labels"], data["labels"])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"labels": None}, "the data lack 'labels'"),
        ({"labels": np.full(20, 4)}, "'labels' of the data has 4 at sample 0, and the model takes 0 to 3"),
        ({"labels": np.array([0] * 19 + [-1])}, "'labels' of the data has -1 at sample 19"),
        ({"labels": np.zeros(20, np.float32)}, "'labels' of the data is float32, and the model reads i64"),
        ({"labels": np.zeros(19, np.int64)}, "different numbers of samples: 20 of '.*', 19 of 'labels'"),
        ({"labels": np.zeros((20, 1), np.int64)}, r"'labels' of the data is \[20, 1\], and the model reads \[N\]"),
    ],
)
def test_what_does_not_fit(space: Space, changes: dict, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        checked(space, given(space, **changes))


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (np.zeros((20, 3, 10, 10), np.float32), r"is \[20, 3, 10, 10\], and the model reads \[N, 1, 10, 10\]"),
        (np.zeros((0, 1, 10, 10), np.float32), r"is \[0, 1, 10, 10\], and the model reads \[N, 1, 10, 10\]"),
        (np.full((20, 1, 10, 10), np.nan, np.float32), "numbers that are not finite"),
        (np.zeros((20, 1, 10, 10), np.complex64), "is complex64, and the model reads f32"),
    ],
)
def test_images_that_do_not_fit(space: Space, images: np.ndarray, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        checked(space, given(space, **{space.graph.inputs[0].name: images}))


def test_labels_that_are_ignored_are_allowed(space: Space) -> None:
    labels = np.array([0, 1, 2, -100] * 5)
    assert checked(space, given(space, labels=labels))["labels"][3] == -100


def test_a_dataset_is_read_from_its_file(tmp_path: Path) -> None:
    data = networks.samples(6)
    save_file(data, tmp_path / "d.safetensors")
    found = read_dataset(tmp_path / "d.safetensors")
    assert set(found) == set(data) and all(np.array_equal(found[name], data[name]) for name in data)


def test_a_file_that_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no dataset"):
        read_dataset(tmp_path / "none.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(DataError, match="is not a dataset"):
        read_dataset(tmp_path / "bad.safetensors")
    with pytest.raises(DataError, match="is not a dataset"):
        read_dataset(tmp_path)
