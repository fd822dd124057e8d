"""`tuning`: what is known, as a table and as a file, and how a build asks for it."""

import json
from pathlib import Path

from tests.client.cli.conftest import Pock

HEAD = {"format": "pock-tuning", "version": 1}


def test_knowledge_comes_as_a_file_is_shown_and_leaves_as_one(pock: Pock, tmp_path: Path) -> None:
    inputs = {"family": "matmul", "device": "x86_64 skylake", "sizes": "1,2,3", "body": str(tmp_path)}
    line = {"inputs": inputs, "result": {"choice": {"tile": 1}, "ms": 0.25, "model_ms": 0.5}, "created": 1.0}
    file = tmp_path / "brought.jsonl"
    file.write_text(f"{json.dumps(HEAD)}\n{json.dumps(line)}\n")
    assert "1 entries are new, 0 were known" in pock("tuning", "import", str(file), "--target", "host").out
    assert pock("tuning", "import", str(file), "--target", "host", "--json").json == {"added": 0, "kept": 1}
    shown = pock("tuning", "show", "--family", "matmul").out
    assert "matmul" in shown and "import" in shown and "0.25" in shown
    (one,) = [one for one in pock("tuning", "show", "--json").json["items"] if one["inputs"]["body"] == str(tmp_path)]
    assert one["choice"] == {"tile": 1} and one["source"] == "import"
    sent = tmp_path / "sent.jsonl"
    assert pock("tuning", "export", str(sent), "--target", "host", "--json").json["entries"] >= 1
    assert str(tmp_path) in sent.read_text()


def test_nothing_is_searched_and_all_devices_are_believed(pock: Pock) -> None:
    assert "no searches" in pock("tuning", "jobs").out + pock("tuning", "jobs").err
    assert "all devices are believed" in pock("tuning", "devices").out + pock("tuning", "devices").err


def test_a_build_asks_for_the_fleet_or_for_nobody(pock: Pock) -> None:
    order = ("build", "net", "--recipe", "r.yaml", "--target", "host")
    assert pock(*order, "--tune", "everybody").status == 2
    assert pock(*order, "--wait-tuned").status == 2
