"""What the fleet knows, as a client sees it, and as files."""

import json
from pathlib import Path
from typing import Any

import pytest

from pock_client import PockClientError
from pock_client.schema import TuningEntryIn
from pock_client.tuning_files import portions, read_file

INPUTS = {"family": "matmul", "device": "x86_64 skylake", "sizes": "1,2,3"}
HEAD = {"format": "pock-tuning", "version": 1}


def line(number: int, **changes: Any) -> dict[str, Any]:
    result = {"choice": {"tile": number}, "ms": 0.5, "model_ms": 1.0}
    return {"inputs": {**INPUTS, "body": f"workload {number}"}, "result": result, "created": 1.0, **changes}


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def test_a_targets_knowledge_goes_out_as_a_file_and_comes_back(client: Any, tmp_path: Path) -> None:
    own = [line(number, inputs={**INPUTS, "body": f"{tmp_path} {number}"}) for number in range(3)]
    file = write(tmp_path / "brought.jsonl", HEAD, *own)
    answer = client.tuning.import_file(file, "host")
    assert (answer.added, answer.kept) == (3, 0)
    assert client.tuning.export(tmp_path / "sent.jsonl", "host") >= 3
    head, *every = map(json.loads, (tmp_path / "sent.jsonl").read_text().splitlines())
    lines = [one for one in every if one["inputs"]["body"].startswith(str(tmp_path))]
    assert head == HEAD and [one["result"]["choice"] for one in lines] == [{"tile": number} for number in range(3)]
    assert {(one["result"]["by"], one["provenance"]["target"]) for one in lines} == {("import", "host")}
    again = client.tuning.import_file(tmp_path / "sent.jsonl", "host")
    assert (again.added, again.kept) == (0, len(every))
    assert list(client.tuning.entries(target="raspberry-pi-4")) == [] == list(client.tuning.jobs())


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([{"format": "other"}], "no file of tuning results"),
        ([{**HEAD, "version": 9}], "version 9"),
        ([HEAD, {"inputs": INPUTS}], "line 2"),
        ([HEAD, line(1), line(1, inputs="x")], "line 3"),
        ([HEAD, line(1, inputs={**INPUTS, "body": "x" * (300 << 10)})], "too long at line 2"),
    ],
)
def test_a_file_of_something_else_is_refused(lines: list[Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(PockClientError, match=said):
        read_file(write(tmp_path / "file", *lines))


def test_portions_fit_into_requests() -> None:
    small = [TuningEntryIn(inputs=INPUTS, choice=number) for number in range(450)]
    assert [len(portion) for portion in portions(small)] == [200, 200, 50]
    large = [TuningEntryIn(inputs={**INPUTS, "body": "x" * (200 << 10)}, choice=number) for number in range(5)]
    assert [len(portion) for portion in portions(large)] == [2, 2, 1]
