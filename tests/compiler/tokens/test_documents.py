"""JSON lines as documents: what is learned, and what is refused with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pockengine.errors import DataError, PockError
from pockengine.tokens import Ends, documents, load_tokenizer, read_documents

WORDS = ["[UNK]", "<end>", "the", "cat", "sat"]


def _written(folder: Path, *lines: Any) -> list[Path]:
    file = folder / "d.jsonl"
    file.write_bytes(b"\n".join(one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines))
    return [file]


def _tokenizer_file(folder: Path) -> Path:
    """Words between blanks."""
    vocabulary = {word: index for index, word in enumerate(WORDS)}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}
    content = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model}
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(content | dict.fromkeys(["truncation", "padding", "normalizer", "post_processor"])))
    return file


def test_answers_texts_and_the_assistants_messages_are_learned(tmp_path: Path) -> None:
    files = _written(
        tmp_path,
        {"prompt": "ab", "answer": "c"},
        b"",
        {"text": "é"},
        {"tokens": [7, 8]},
        {"messages": [{"role": "user", "content": [1]}, {"role": "assistant", "content": [2, 3]}]},
    )
    found = read_documents(files, 258, load_tokenizer("bytes"), Ends(256, 257))
    assert len(found) == 4 and found.starts.tolist() == [0, 5, 9, 13, 18]
    assert found.ids.tolist() == [256, 97, 98, 99, 257, 256, 195, 169, 257, 256, 7, 8, 257, 256, 1, 2, 3, 257]
    assert "".join("01"[int(one)] for one in found.learned) == "00011" + "0111" + "0111" + "00111"


def test_a_tokenizer_of_a_file(tmp_path: Path) -> None:
    words = load_tokenizer(_tokenizer_file(tmp_path))
    assert words.encode("the cat sat") == [2, 3, 4] and words.decode([2, 3]) == "the cat"
    assert words.id_of("<end>") == 1 and words.id_of("<no>") is None
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(DataError, match=r"broken.json' is no tokenizer.json"):
        load_tokenizer(tmp_path / "broken.json")
    with pytest.raises(DataError, match="there is no tokenizer"):
        load_tokenizer(tmp_path / "none.json")


def test_what_a_file_says_of_lengths_does_not_cut_texts(tmp_path: Path) -> None:
    file = _tokenizer_file(tmp_path)
    cut = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"truncation": cut}))
    words = load_tokenizer(file)
    assert words.encode("the cat sat") == [2, 3, 4]
    assert words.encode_with_extents("the cat sat").extents == [(0, 3), (4, 7), (8, 11)]


def test_half_a_letter_decodes_to_a_replacement() -> None:
    assert load_tokenizer("bytes").decode([97, 195, 300]) == "a\ufffd"


REFUSED = {
    "an id beyond the vocabulary": ({"tokens": [9, 10]}, "the token 10 is not in the vocabulary of 0 to 9"),
    "a negative id": ({"tokens": [-1]}, "the token -1 is not"),
    "an enormous id": (b'{"tokens": [' + b"9" * 4000 + b"]}", "the token 9999"),
    "more digits than a number may have": (b'{"tokens": [' + b"9" * 5000 + b"]}", "it is not JSON"),
    "a fraction": ({"tokens": [1.5]}, "a token id is a whole number, not '1.5'"),
    "a truth value": ({"tokens": [True]}, "a token id is a whole number, not 'True'"),
    "half an object": (b'{"tokens": [1', "it is not JSON: "),
    "no object": ([1, 2], "an object is wanted"),
    "an unknown form": ({"question": [1]}, "it has neither form of a document"),
    "no text": ({"text": 3}, "text or a list of token ids is wanted, not '3'"),
    "text without a tokenizer": ({"text": "a"}, "name a tokenizer with --tokenizer"),
    "no UTF-8": (b'{"text": "\xff"}', "it is not UTF-8"),
    "nested without end": (b'{"tokens": ' + b"[" * 100_000, "nested too deeply"),
    "a role that is none": ({"messages": [{"role": "me", "content": [1]}]}, "a message has a role"),
    "messages that are none": ({"messages": [1]}, '"messages" is a list'),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_its_line(name: str, tmp_path: Path) -> None:
    line, reason = REFUSED[name]
    with pytest.raises(DataError) as error:
        read_documents(_written(tmp_path, {"tokens": [1]}, b"", line), 10)
    assert "d.jsonl, line 3: " in str(error.value) and reason in str(error.value)


def test_lines_and_all_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_LINE", 40)
    monkeypatch.setattr(documents, "MOST_TOKENS", 6)
    with pytest.raises(DataError, match="line 2: it is longer than 40 bytes"):
        read_documents(_written(tmp_path, {"tokens": [1]}, b" " * 41), 10)
    with pytest.raises(DataError, match="line 2: there are more than 6 tokens"):
        read_documents(_written(tmp_path, {"tokens": [1] * 4}, {"tokens": [1] * 4}), 10)


def test_ends_are_in_the_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="what begins or ends documents: the token 10 is not"):
        read_documents(_written(tmp_path, {"tokens": [1]}), 10, None, Ends(end=10))


def test_without_the_library_a_file_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(PockError, match=r"pip install 'pockengine\[text\]'"):
        load_tokenizer(_tokenizer_file(tmp_path))
