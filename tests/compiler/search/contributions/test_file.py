"""Contributions as a file: back as they were, and nothing that is wrong is read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pockengine.errors import DataError
from pockengine.search.contributions import Contributions, load, save
from tests.compiler.search.contributions.models import task


@pytest.fixture(scope="module")
def contributions() -> Contributions:
    space, rng = task("images", 4).space, np.random.default_rng(0)
    gains = tuple((0.0, *rng.standard_normal(len(unit.shares) - 1).tolist()) for unit in space.units)
    return Contributions(space, gains, "fisher", 1.5, {"batches": 3}, {"stem.weight": np.array([0.1, 3.0, 2.0])})


def test_it_comes_back(contributions: Contributions, tmp_path: Path) -> None:
    save(contributions, tmp_path / "c.json")
    found = load(tmp_path / "c.json", contributions.space)
    assert found.gains == contributions.gains
    assert (found.method, found.seconds, found.provenance) == ("fisher", 1.5, {"batches": 3})
    assert {name: one.tolist() for name, one in found.importance.items()} == {"stem.weight": [0.1, 3.0, 2.0]}
    assert [file.name for file in tmp_path.iterdir()] == ["c.json"]


def test_what_a_scheme_brings(contributions: Contributions) -> None:
    space = contributions.space
    assert contributions.total(space.frozen) == 0.0
    assert contributions.total(space.full) == pytest.approx(contributions.whole.sum())
    assert len(contributions.flat) == sum(len(unit.shares) - 1 for unit in space.units)
    assert contributions.agreement(contributions) == pytest.approx(1.0)


def changed(change):
    """A hostile file: the good one with something else in it."""

    def make(good: dict) -> bytes:
        change(good)
        return json.dumps(good).encode()

    return make


def unit(key: str, value: object):
    return changed(lambda good: good["units"][0].update({key: value}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: b"", "not JSON"),
        (lambda _: b"\xff\xfe{", "not JSON"),
        (lambda _: b"[" * 100000, "too many lists"),
        (lambda _: b"[]", "it is no mapping"),
        (lambda _: b'{"format": 1, "format": 1}', "a key is there twice"),
        (lambda _: b'{"format": ' + b"9" * 5000 + b"}", "not JSON"),
        (lambda _: b'{"seconds": NaN}', "NaN is not finite"),
        (lambda _: b'{"seconds": 1e999}', "1e999 is not finite"),
        (changed(lambda good: good.pop("units")), "it has no 'units'"),
        (changed(lambda good: good.update(unitz=1)), "unknown key 'unitz' .did you mean 'units'"),
        (changed(lambda good: good.update(format=2)), "it has the format 2, and this version reads 1"),
        (changed(lambda good: good.update(format=True)), "it has the format True"),
        (changed(lambda good: good.update(method=3)), "its method is no text"),
        (changed(lambda good: good.update(provenance=[])), "its provenance is no mapping"),
        (changed(lambda good: good.update(seconds=-1)), "seconds is negative"),
        (changed(lambda good: good.update(seconds="1")), "seconds must be numbers, not '1'"),
        (changed(lambda good: good.update(seconds=10**400)), "seconds must be finite"),
        (changed(lambda good: good["units"].pop()), "it has 10 units, the model 11"),
        (changed(lambda good: good.update(units={})), "it has no units, the model 11"),
        (changed(lambda good: good["units"].__setitem__(0, 4)), "unit 0 is no mapping"),
        (unit("name", "a.weight"), "unit 0 is 'a.weight', the model has 'stem.weight' there"),
        (unit("name", ["x"] * 1000), "of another model"),
        (unit("shares", [0.0, 0.5, 1.0, 1.0]), "of other shares"),
        (unit("ranks", [4]), "the ranks of 'stem.weight' must be a list of 0 numbers"),
        (unit("shares", [0.0]), "must be a list of"),
        (unit("gains", [0.0, 1.0]), "the gains of 'stem.weight' must be a list of"),
        (unit("gains", [0.0, True, 1.0, 1.0]), "must be numbers, not True"),
        (unit("gains", [1.0, 1.0, 1.0, 1.0]), "gains 1 frozen, which must be 0"),
        (unit("importance", [1.0]), "the importance of 'stem.weight' must be a list of 3 numbers"),
        (unit("importances", [1.0]), "unknown key 'importances'"),
        (changed(lambda good: good["units"][1].update(importance=[1.0])), "'norm.weight' has no input channels"),
    ],
)
def test_hostile_files_are_refused(contributions: Contributions, tmp_path: Path, make, message: str) -> None:
    path = tmp_path / "c.json"
    save(contributions, path)
    path.write_bytes(make(json.loads(path.read_text())))
    with pytest.raises(DataError, match=message) as caught:
        load(path, contributions.space)
    assert len(str(caught.value)) < 1000
    assert "c.json" in str(caught.value)


def test_no_file_and_one_that_is_too_large(contributions: Contributions, tmp_path: Path, monkeypatch) -> None:
    from pockengine.search.contributions import file

    with pytest.raises(DataError, match="no such file"):
        load(tmp_path / "none.json", contributions.space)
    with pytest.raises(DataError, match="directory"):
        load(tmp_path, contributions.space)
    save(contributions, tmp_path / "c.json")
    monkeypatch.setattr(file, "_MOST_BYTES", 100)
    with pytest.raises(DataError, match="larger than"):
        load(tmp_path / "c.json", contributions.space)
