"""Answers of the landed release's service, as they were recorded: this client reads them, and so do its commands."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from client.generate import FIRST, NAMES, ROOT
from pock_client import schema
from pock_client.cli.app import app
from pock_client.errors import Damaged, PockClientError
from tests.client.conftest import KEY, Connect
from tests.client.hostile import Answer, Asked, Hostile, as_json, problem

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "answers_of_before.json").read_text())
FIRST_FIELDS: dict[str, list[str]] = json.loads((ROOT / FIRST).read_text())


@pytest.fixture
def older(hostile: Hostile) -> Hostile:
    """Answers what the older service answered."""

    def answer(asked: Asked) -> Answer:
        found = RECORDED.get(asked.path.removeprefix("/v1").partition("?")[0])
        if found is not None and "/steps" in asked.path and "after=-1" not in asked.path:
            return as_json({"items": []})
        return problem(404, 1005) if found is None else as_json(found)

    hostile.answers = answer
    return hostile


@pytest.mark.parametrize("resource", ["models", "datasets", "builds", "devices", "runs", "targets"])
def test_its_lists_are_read(older: Hostile, connect: Connect, resource: str) -> None:
    found = list(getattr(connect(older.url), resource).list())
    recorded = RECORDED[f"/{resource}"]["items"]
    assert len(found) == len(recorded) > 0
    key = "name" if resource == "targets" else "id"
    assert [getattr(one, key) for one in found] == [one[key] for one in recorded]


def test_what_it_does_not_tell_is_none_or_empty(older: Hostile, connect: Connect) -> None:
    client = connect(older.url)
    model, build = next(iter(client.models.list())), next(iter(client.builds.list()))
    device = next(iter(client.devices.list()))
    assert (model.version, model.tags, build.model, build.tune, build.request_id) == (None, [], None, None, None)
    assert (device.labels, device.resting) == ({}, None)
    (path,) = (path for path in RECORDED if path.startswith("/runs/") and not path.endswith("/steps"))
    run = client.runs.get(path.rpartition("/")[2])
    assert (run.build, run.retries, run.retry, run.retried_by, run.paused) == (None, {}, None, None, None)
    assert run.report is not None and run.report.train is not None and run.report.train.loss is not None
    assert run.report.train.loss[-1] == RECORDED[path]["report"]["train"]["loss"][-1]
    assert [step.step for step in client.runs.steps(run.id)] == list(range(1, 6))
    assert client.enrolment_tokens.create().token == "pe_recorded"
    with pytest.raises(PockClientError, match="older than selectors"):
        client.devices.count("pool=default")


def test_what_it_told_from_the_beginning_has_to_come(older: Hostile, connect: Connect) -> None:
    client = connect(older.url)
    for path, kind, struct in (("/models", "ModelOut", client.models), ("/runs", "RunOut", client.runs)):
        whole = RECORDED[path]["items"][0]
        for name in sorted(set(FIRST_FIELDS[kind]) & set(whole)):
            older.in_turn(as_json({key: value for key, value in whole.items() if key != name}))
            with pytest.raises(Damaged, match=f"missing required field `{name}`"):
                struct.get(whole["id"])


def test_no_type_needs_a_field_that_came_later() -> None:
    structs = dict(inspect.getmembers(schema, lambda one: inspect.isclass(one) and issubclass(one, msgspec.Struct)))
    seen = 0
    for component, first in FIRST_FIELDS.items():
        struct = structs[NAMES.get(component, component.removesuffix("Out"))]
        needed = {one.encode_name for one in msgspec.structs.fields(struct) if one.required}
        assert needed <= set(first), component
        seen += 1
    assert seen > 50


@pytest.mark.parametrize(
    "words",
    [["models"], ["datasets"], ["builds"], ["runs"], ["devices"], ["targets"], ["runs", "net"], ["runs", "--json"]],
    ids=" ".join,
)
def test_its_answers_are_shown(older: Hostile, words: list[str]) -> None:
    done = CliRunner().invoke(app, words, env={"POCK_URL": older.url, "POCK_KEY": KEY}, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    assert "None" not in done.stdout
    if words == ["runs", "net"]:
        assert "no runs" in done.stderr, "such a service does not tell what a run's build is called"
        return
    said = {"models": "net", "datasets": "told", "builds": "net", "runs": "a4714242", "devices": "board"}
    assert said.get(words[0], "host") in done.stdout.replace("-", "")


def test_a_run_by_the_end_of_its_id_is_logged_and_compared(older: Hostile) -> None:
    environment = {"POCK_URL": older.url, "POCK_KEY": KEY}
    logged = CliRunner().invoke(app, ["logs", "daaaa4714242"], env=environment, catch_exceptions=False)
    assert logged.exit_code == 0 and "step 5: loss 0.2" in logged.stdout, logged.stderr
    compared = CliRunner().invoke(app, ["compare", "daaaa4714242"], env=environment, catch_exceptions=False)
    assert compared.exit_code == 0, compared.stderr
    assert "31bf7e6f6033"[-8:] not in compared.stdout and "a4714242" in compared.stdout
    refused = CliRunner().invoke(app, ["bench", "net", "--on", "board"], env=environment, catch_exceptions=False)
    assert refused.exit_code == 1 and "older than selectors" in refused.stderr
