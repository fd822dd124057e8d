"""The deployment that tests of the API run against is what it says, and the tests that can run against it do."""

import os
import subprocess
import sys
from pathlib import Path

import httpx

from pock_server.broker.application import count_workers
from tests.server.deployment import ROOT, Deployment


def test_two_processes_serve_and_two_build(deployment: Deployment) -> None:
    server = deployment.server()
    person = server.person()
    leaders = []
    for port in deployment.ports:
        url = f"http://127.0.0.1:{port}"
        checks = httpx.get(f"{url}/readyz", trust_env=False).json()["checks"]
        assert all(check["ok"] for check in checks) and "broker" in {check["name"] for check in checks}
        leaders.append("pock_leader 1.0" in httpx.get(f"{url}/metrics", trust_env=False).text)
    assert sorted(leaders) == [False, True], "two processes, of which one leads"
    assert count_workers(deployment.services.settings) == 2
    assert deployment.services.settings.store_url.startswith("s3://")
    assert server.built(person)["state"] == "succeeded"


def test_what_speaks_to_the_api_alone_runs_against_it() -> None:
    rooms = Path(__file__).parents[1]
    files = [str(rooms / name) for name in ("fleet/test_runs.py", "fleet/test_races.py", "building/test_runner.py")]
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *files],
        cwd=ROOT,
        env={**os.environ, "POCK_ALL": "1"},
        capture_output=True,
        text=True,
    ).stdout
    names = {line.rpartition("::")[2] for line in listed.splitlines()}
    here = {name for name in names if "[deployment" in name}
    assert {"test_whole_life[deployment]", "test_a_token_lets_one_device_in[deployment-0]"} <= here
    assert "test_whole_life[sqlite]" in names
    assert not {name for name in here if "deadline" in name or "worker" in name}, "they move the clock, or end builds"
