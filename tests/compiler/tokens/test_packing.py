"""Documents in sequences: each whole and once, labels in their places, and little padding."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import pockengine as pock
from pockengine.errors import DataError
from pockengine.ir import Array
from pockengine.tokens import Contents, Documents, Layout, layout_of, token_dataset
from pockengine.tokens.packing import packed
from tests.compiler.cli.command import pock as pock_command

from . import llama

ALL = Layout(16, 1000, ("input_ids", "position_ids", "attention_mask", "document_ids"))


def _random(seed: int, most: int, count: int = 200) -> Documents:
    """Documents of distinct ids, the first half of each a prompt."""
    lengths = np.random.default_rng(seed).integers(2, most + 1, count)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    learned = np.concatenate([np.arange(one) >= one // 2 for one in lengths])
    return Documents(np.arange(starts[-1], dtype=np.int32), learned, starts)


def _pieces(tensors: dict[str, Array]) -> list[tuple[list[int], list[int]]]:
    """(ids, labels) of each document of each sequence."""
    found = []
    for row in range(len(tensors["labels"])):
        numbers = tensors["document_ids"][row]
        for number in range(1, int(numbers.max()) + 1):
            here = numbers == number
            assert tensors["position_ids"][row][here].tolist() == list(range(int(here.sum())))
            found.append((tensors["input_ids"][row][here].tolist(), tensors["labels"][row][here].tolist()))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_every_document_is_there_once_and_whole(seed: int) -> None:
    documents, layout = _random(seed, 16), Layout(16, 4000, ALL.inputs)
    dataset = token_dataset(documents, layout, Contents(seed))
    pieces = _pieces(dict(dataset.tensors))
    assert sorted(ids[0] for ids, _ in pieces) == documents.starts[:-1].tolist()
    for ids, labels in pieces:
        assert ids == list(range(ids[0], ids[0] + len(ids)))
        half = max(1, len(ids) // 2)  # the first token of a document has nothing before it
        assert labels == [-100] * half + ids[half:]
    mask = dataset.tensors["document_ids"] > 0
    assert (dataset.tensors["attention_mask"] == mask).all() and (dataset.tensors["labels"][~mask] == -100).all()
    assert dataset.statistics.padding == pytest.approx(1 - mask.mean(), abs=1e-6)
    assert dataset.statistics.tokens == documents.starts[-1] and dataset.statistics.documents == 200


def test_labels_ahead_are_the_tokens_that_follow() -> None:
    documents = _random(1, 12)
    behind = token_dataset(documents, Layout(16, 4000)).tensors
    ahead = token_dataset(documents, Layout(16, 4000, ahead=True)).tensors
    assert (behind["input_ids"] == ahead["input_ids"]).all()
    assert (ahead["labels"][:, :-1] == behind["labels"][:, 1:]).all() and (ahead["labels"][:, -1] == -100).all()


def test_long_documents_are_cut_and_what_has_no_answer_left_out() -> None:
    learned = np.arange(40) >= 35
    documents = Documents(np.arange(40, dtype=np.int32), learned, np.array([0, 37, 40]))
    dataset = token_dataset(documents, ALL)
    assert sorted(ids for ids, _ in _pieces(dict(dataset.tensors))) == [list(range(32, 37)), [37, 38, 39]]
    assert (dataset.statistics.cut, dataset.statistics.left_out, dataset.statistics.documents) == (1, 2, 2)
    with pytest.raises(DataError, match="no document has a token to be learned"):
        token_dataset(Documents(documents.ids, learned & False, documents.starts), ALL)


def test_the_seed_decides_and_unpacked_documents_are_alone() -> None:
    documents, layout = _random(2, 9), Layout(16, 4000, ALL.inputs)
    first, again, other = (token_dataset(documents, layout, Contents(seed)).tensors for seed in (0, 0, 1))
    assert (first["input_ids"] == again["input_ids"]).all()
    assert first["input_ids"].shape != other["input_ids"].shape or (first["input_ids"] != other["input_ids"]).any()
    alone = token_dataset(documents, Layout(16, 4000), Contents(together=False))
    assert len(alone.tensors["labels"]) == 200 and alone.statistics.apart


@pytest.mark.parametrize("seed", range(5))
def test_best_fit_takes_few_sequences(seed: int) -> None:
    lengths = np.random.default_rng(seed).integers(1, 65, 500).tolist()
    sequences = packed(lengths, 64, seed)
    assert sorted(piece for one in sequences for piece in one) == list(range(500))
    totals = [sum(lengths[piece] for piece in one) for one in sequences]
    assert max(totals) <= 64 and len(sequences) <= -(-sum(lengths) // 64) * 11 / 9 + 1  # Johnson's bound


def test_an_artifact_says_what_its_dataset_consists_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = pock.compile(llama.graph(), llama.recipe("head"), threads=1)
    assert layout_of(artifact.manifest) == llama.LAYOUT
    artifact.save(tmp_path / "m.pock")
    (tmp_path / "d.jsonl").write_text('{"prompt": [1, 2], "answer": [3, 60]}\n')
    command = ("data", "tokens", tmp_path / "d.jsonl", "-o", tmp_path / "d.safetensors", "--for", tmp_path / "m.pock")
    code, out, err = pock_command(*command, "--json", capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0 and json.loads(out)["sequences"] == 1, err
    assert load_file(tmp_path / "d.safetensors")["labels"][0, :5].tolist() == [-100, -100, 3, 60, -100]
    (tmp_path / "d.jsonl").write_text('{"prompt": [1, 2], "answer": [61]}\n')
    code, out, err = pock_command(*command, capsys=capsys, monkeypatch=monkeypatch)
    assert code == 2 and "line 1: the token 61 is not in the vocabulary of 0 to 60" in err
    code, out, err = pock_command(*command, "--length", 8, capsys=capsys, monkeypatch=monkeypatch)
    assert code == 2 and "--for says what the dataset consists of" in err


def test_models_that_token_streams_do_not_fit_are_refused() -> None:
    own = pock.Recipe(loss={"name": "causal_lm", "target": "input_ids"}, update="head")
    with pytest.raises(DataError, match="reads its own input 'input_ids'"):
        layout_of(pock.compile(llama.graph(), own, threads=1).manifest)
    with pytest.raises(DataError, match="cannot fill the input 'positions'"):
        Layout(16, 10, ("input_ids", "positions"))
