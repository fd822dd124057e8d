"""A share of the dataset that the run itself holds out: who is in it, and that training never sees it, cut or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from pockengine.codegen.samples import held_out
from pockengine.errors import DataError
from pockengine.targets import get
from tests.compiler.runtime.conftest import TOY, Run
from tests.compiler.runtime.test_resume import story
from tests.compiler.runtime.toy import Toy

SAMPLES = 1300
"""More than two blocks of the split's bits."""


@pytest.mark.parametrize("seed", [0, 7])
def test_the_parts_are_those_of_python_and_stratified(seed: int, run: Run, tmp_path: Path) -> None:
    """A model that does not learn tells by its losses which samples a part has."""
    toy = Toy(batch=1, rate=0.0)
    binary = toy.build(tmp_path / "toy", get("host"))
    dataset = dict(toy.dataset(SAMPLES))
    save_file(dataset, tmp_path / "d")
    each = np.array(run("train", "--data", "d", "--epochs", 1, "--no-shuffle", binary=binary).losses)
    share = ("--data", "d", "--eval-share", 0.25, "--eval-seed", seed)
    chosen = held_out(SAMPLES, 0.25, seed, dataset["labels"])
    counts = np.bincount(dataset["labels"][chosen])
    np.testing.assert_allclose(counts, np.bincount(dataset["labels"]) * 0.25, atol=1)
    done = run("train", *share, "--epochs", 1, "--no-shuffle", binary=binary)
    assert done.losses == list(each[~chosen])
    told = {"share": 0.25, "seed": seed, "samples": int(chosen.sum()), "of": SAMPLES, "by_class": True}
    assert done.report["held_out"] == done.events[0]["held_out"] == told
    assert (done.report["ended"], done.report["stopped_early"]) == ("epochs", False)
    (alone,) = [event for event in run("eval", *share, binary=binary).events if event["event"] == "eval"]
    assert alone["samples"] == chosen.sum()
    assert alone["loss"] == pytest.approx(each[chosen].mean(), rel=1e-6)
    assert [event["loss"] for event in done.events if event["event"] == "eval"] == [alone["loss"]]


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.99])
def test_every_class_keeps_a_sample_to_train_on(share: float) -> None:
    classes = np.repeat([3, 5, 6, 9], [1, 2, 40, 157])
    chosen = held_out(200, share, 1, classes)
    assert abs(int(chosen.sum()) - 200 * share) <= 4
    for one in (3, 5, 6, 9):
        of = classes == one
        assert abs(chosen[of].sum() - share * of.sum()) <= 1 and not chosen[of].all()
    assert (chosen != held_out(200, share, 2, classes)).any()


def test_it_is_drawn_evenly() -> None:
    """Each of 60 samples is held out in about a quarter of 400 splits: 100, give or take five standard deviations."""
    often = np.stack([held_out(60, 0.25, seed, None) for seed in range(400)]).sum(axis=0)
    assert often.min() > 56 and often.max() < 144


@pytest.mark.parametrize(
    ("samples", "share", "part"),
    [(3, 0.1, "holds out none"), (9, 0.0, "between 0 and 1"), (9, float("nan"), "between")],
)
def test_no_split(samples: int, share: float, part: str) -> None:
    with pytest.raises(DataError, match=part):
        held_out(samples, share, 0, None)


WATCHED = (
    "train",
    "--data",
    "d",
    "--steps",
    400,
    "--eval-share",
    0.3,
    "--eval-every",
    2,
    "--patience",
    3,
    "--save",
    "w",
)


@pytest.fixture
def noise(tmp_path: Path) -> Path:
    """Labels without sense: what is learnt of some says nothing of others, and the held-out loss soon rises."""
    labels = np.random.default_rng(5).integers(0, TOY.classes, 26)
    save_file({**TOY.dataset(26), "labels": labels}, tmp_path / "d")
    return tmp_path


def test_it_stops_and_saves_the_best(noise: Path, run: Run) -> None:
    done = run(*WATCHED)
    report = done.report
    assert (report["ended"], report["stopped_early"], report["held_out"]["samples"]) == ("patience", True, 8)
    assert report["best_step"] == len(done.losses) - 6
    (again,) = [
        e for e in run("eval", "--data", "d", "--eval-share", 0.3, "--load", "w").events if e["event"] == "eval"
    ]
    assert again["loss"] == pytest.approx(report["best_loss"], rel=1e-8)


def test_cut_anywhere_it_goes_on_with_the_same_samples(noise: Path, run: Run) -> None:
    whole = run(*WATCHED)
    weights = (noise / "w").read_bytes()
    checkpoint = ("--checkpoint", "c", "--checkpoint-every", 1)
    for cut in (1, 4, len(whole.losses) - 1):
        first = run(*WATCHED, *checkpoint, "--steps", cut)
        rest = run(*WATCHED, "--resume", "c")
        due = [event for event in story(first) if event["event"] == "step" or event["step"] % 2 == 0]
        assert due + story(rest) == story(whole), cut
        assert (noise / "w").read_bytes() == weights, cut
        assert {key: rest.report[key] for key in ("held_out", "best_step", "ended")} == {
            key: whole.report[key] for key in ("held_out", "best_step", "ended")
        }
    for other in (("--eval-share", 0.31), ("--eval-seed", 1)):
        done = run(*WATCHED, *other, "--resume", "c")
        sentence = "c was made with other samples held out; give the same --eval-share and --eval-seed"
        assert (done.code, done.losses, done.sentence) == (3, [], sentence)


def test_a_checkpoint_of_before_goes_on(noise: Path, run: Run) -> None:
    plain = ("train", "--data", "d", "--checkpoint", "c", "--checkpoint-every", 1)
    whole = run(*plain, "--steps", 5).losses
    run(*plain, "--steps", 3)
    with safe_open(noise / "c", "np") as file:
        metadata = file.metadata()
    old = {key: value for key, value in metadata.items() if not key.startswith("eval_")}
    assert len(old) == len(metadata) - 2
    save_file(load_file(noise / "c"), noise / "c", old)
    assert run(*plain, "--steps", 5, "--resume", "c").losses == whole[3:]
    assert run(*plain, "--steps", 5, "--resume", "c", "--eval-share", 0.3).code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--eval-share", "1"], 2, "--eval-share takes a number between 0 and 1, such as 0.2, not '1'"),
        (["--eval-share", "0"], 2, "--eval-share takes a number between 0 and 1"),
        (["--eval-share", "0.2x"], 2, "--eval-share takes a number between 0 and 1"),
        (["--eval-share", "nan"], 2, "--eval-share takes a number between 0 and 1"),
        (["--eval-share", "-0.5"], 2, "--eval-share takes a number between 0 and 1"),
        (["--eval-share", "0.2", "--eval-data", "d"], 2, "--eval-data and --eval-share exclude each other"),
        (["--eval-seed", "1"], 2, "--eval-seed needs --eval-share"),
        (["--eval-share", "0.001"], 3, "--eval-share 0.001 of 26 samples holds out none"),
    ],
)
def test_bad_shares(arguments: list[str], code: int, sentence: str, noise: Path, run: Run) -> None:
    done = run("train", "--data", "d", "--steps", 2, *arguments)
    assert (done.code, done.events, done.sentence.startswith(sentence)) == (code, [], True), done
