"""Results of the comparison of schemes on their file."""

from __future__ import annotations

from pathlib import Path

from benchmarks.schemes.store import Store, digest_of


def test_results_are_kept_and_lines_that_were_cut_off_are_not(tmp_path: Path) -> None:
    store = Store(tmp_path / "sub" / "results.jsonl")
    store.add("a", {"accuracy": 0.5})
    with store.file.open("a") as file:
        file.write('{"key": "b", "accu')
    again = Store(store.file)
    assert again.get("a") == {"key": "a", "accuracy": 0.5} and again.get("b") is None
    again.add("c", {"accuracy": 0.25})
    assert [one["key"] for one in Store(store.file)] == ["a", "c"]
    assert digest_of([1, 2], b"x") != digest_of([1], b"x") != digest_of([1], b"y")


def test_what_another_process_adds_is_seen_once_it_is_whole(tmp_path: Path) -> None:
    ours, theirs = Store(tmp_path / "results.jsonl"), Store(tmp_path / "results.jsonl")
    theirs.add("a", {"accuracy": 0.5})
    assert ours.get("a") == {"key": "a", "accuracy": 0.5}
    with ours.file.open("a") as file:
        file.write('{"key": "b"')
        file.flush()
        assert ours.get("b") is None
        file.write(', "accuracy": 1.0}\n')
    assert ours.get("b") == {"key": "b", "accuracy": 1.0}
