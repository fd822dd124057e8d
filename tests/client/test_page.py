"""docs/reference/client.md: its programs run as they stand, and it names what there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import pock_client
from pock_client import Client
from tests.client.service import Service
from tests.server.harness import Device, digest_of, safetensors

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "client.md").read_text()
DATA = safetensors({"input": ("F32", (8, 4)), "labels": ("I64", (8,))})
WEIGHTS = b"trained"


def work(device: Device) -> None:
    """Do the one run that comes."""
    while device.take_work() is None:
        time.sleep(0.1)
    assert device.post("lease").status_code == 200
    step = {"event": "step", "step": 100, "loss": 0.5, "ms": 1.0}
    assert device.post("events", first_seq=0, events=[step]).status_code == 200
    digest = digest_of(WEIGHTS)
    assert device.call("PUT", f"/blobs/sha256/{digest}", content=WEIGHTS).status_code == 201
    assert device.post("result", state="succeeded", report={}, weights_digest=digest).status_code == 200


def test_its_programs_run(service: Service, tmp_path: Path) -> None:
    first, second = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "net.onnx").write_bytes(b"the page's model")
    (tmp_path / "rows.safetensors").write_bytes(DATA)
    with Client(service.url, service.key) as client:
        token = client.enrolment_tokens.create(name="oven", pool="kitchen").token
    with httpx.Client(base_url=service.url, timeout=30, trust_env=False) as http:
        device = Device(http, Ed25519PrivateKey.generate())  # type: ignore[arg-type]
        assert device.enrol(token).status_code == 201
        assert device.open_session().status_code == 200
        working = threading.Thread(target=work, args=(device,), daemon=True)
        working.start()
        said = run(first, tmp_path, service)
        working.join(60)
    assert "codegen: 25%" in said and "step 100, loss 0.5" in said
    assert (tmp_path / "oven.safetensors").read_bytes() == WEIGHTS and (tmp_path / "net.pock").exists()
    assert re.fullmatch(r"[1-9]\d* builds\n", run(second, tmp_path, service))


def run(program: str, folder: Path, service: Service) -> str:
    """What it prints."""
    variables = {**os.environ, "POCK_URL": service.url, "POCK_KEY": service.key}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=variables, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", re.findall(r"`((?:[A-Z][a-z]+){2,}|Damaged|Unreachable)`", PAGE))
def test_the_names_exist(name: str) -> None:
    assert hasattr(pock_client, name)


def test_the_resources_and_their_methods_exist() -> None:
    rows = re.findall(r"^\| `client\.(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
    assert len(rows) > 6
    with Client("http://127.0.0.1:1", "pk_a") as client:
        for resource, text in rows:
            for method in re.findall(r"`(\w+)(?:\(.*?\))?`", text):
                if method not in ("recipe", "Path"):
                    assert callable(getattr(getattr(client, resource), method)), f"{resource}.{method}"
