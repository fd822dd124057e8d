"""Every call, with generated requests, keeps what the OpenAPI document promises."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CHECKS, load_all_checks

from tests.server.databases import Databases
from tests.server.harness import Device, MovableClock, Server, describe_compiler, make_client, make_settings

load_all_checks()
# Checks that guess at semantics which the document does not state are left out; these are facts.
FACTS = CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "response_headers_conformance",
        "ignored_auth",
    ]
)
EXAMPLES = 8


@pytest.fixture
def live(tmp_path: Path, databases: Databases) -> Iterator[tuple[Server, Device]]:
    """One server with a little of everything in it, and a device that holds a lease."""
    unlimited = {"failure_rate": 1e9, "key_rate": 1e9, "device_rate": 1e9}  # the clock stands still
    configured = make_settings(tmp_path, databases, poll_seconds=0.2, **unlimited)
    describe_compiler(configured)
    clock = MovableClock()
    client, services = make_client(configured, clock)
    with client:
        server = Server(client, services, clock)
        person = server.person()
        device = server.device(person)
        server.run(person, device)
        device.take_work()
        device.post("lease")
        yield server, device


def test_document_is_kept(live: tuple[Server, Device]) -> None:
    server, device = live
    schema = schemathesis.openapi.from_asgi("/openapi.json", server.client.app)
    key = server.person().key
    operations = [cast(Any, found).ok() for found in schema.get_all_operations()]
    assert len(operations) > 35
    for operation in operations:
        try_out(operation, device.token if operation.path.startswith("/v1/agent") else key)


def try_out(operation: schemathesis.APIOperation, credential: str) -> None:
    """Call the operation with generated requests."""

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
    )
    @given(case=operation.as_strategy())
    def keeps_its_promises(case: schemathesis.Case) -> None:
        case.call_and_validate(checks=cast(Any, FACTS), headers={"Authorization": f"Bearer {credential}"})

    keeps_its_promises()
