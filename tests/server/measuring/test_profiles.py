"""Profiled runs: the service says of each kernel to which part of the step it belongs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pock_server.blobs.store import BlobStore
from tests.server.artifacts import artifact_files
from tests.server.fleet.test_runs import start
from tests.server.harness import Device, Person, Server, digest_of
from tests.server.stores import damage, lose


def _phases(server: Server, person: Person, device: Device, kernels: list[dict[str, Any]]) -> list[str | None]:
    """What a run whose device sent these kernels says of their phases."""
    run_id = start(server, person, device)
    sent = device.post("result", state="succeeded", report={"train": {"kernels": kernels}})
    assert sent.status_code == 200, sent.text
    answer = person.get(f"/runs/{run_id}")
    assert answer.status_code == 200, answer.text
    return [kernel["phase"] for kernel in answer.json()["report"]["train"]["kernels"]]


def test_kernels_have_the_phases_of_their_nodes(server: Server, person: Person, device: Device) -> None:
    kernels = [{"name": "fc", "ms": 1.0, "node": node} for node in (2, 0, 1, 1)]
    assert _phases(server, person, device, kernels) == ["update", "forward", "backward", "backward"]


@pytest.mark.parametrize(
    "node", [None, -1, 3, 10**15, True, 0.0, "0", [0], {"node": 0}], ids=lambda node: type(node).__name__
)
def test_a_node_that_the_plan_has_not_has_no_phase(server: Server, person: Person, device: Device, node: Any) -> None:
    sent: tuple[Any, ...] = ("forward", "sideways", 7, [], None)
    told = [{"ms": 1.0, "node": node, "phase": phase} for phase in sent]
    assert _phases(server, person, device, told) == [None] * len(sent)


@pytest.mark.parametrize("fault", [lose, damage])
def test_a_run_is_shown_without_phases_when_its_manifest_is_not_there(
    server: Server, person: Person, device: Device, fault: Callable[[BlobStore, str], None]
) -> None:
    kernels = [{"ms": 1.0, "node": 0}]
    assert _phases(server, person, device, kernels) == ["forward"]
    (run,) = person.get("/runs").json()["items"]
    fault(server.services.blobs, digest_of(artifact_files(run["build_id"])["manifest.json"]))
    (kernel,) = person.get(f"/runs/{run['id']}").json()["report"]["train"]["kernels"]
    assert kernel["phase"] is None and kernel["ms"] == 1.0
