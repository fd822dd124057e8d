"""Releases of the agent, from signing to the list, with the client and the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pock_client import Client
from pock_client.errors import PockClientError, ServiceError
from tests.client.conftest import Connect
from tests.client.service import Service
from tests.server.updating.agent_files import agent_file


def signed_file(service: Service, folder: Path, version: str) -> Path:
    file = folder / "pock-agent.pyz"
    file.write_bytes(agent_file(version))
    (folder / "pock-agent.pyz.release.json").unlink(missing_ok=True)
    service.command("agent-release", "sign", str(file))
    return file


def test_push_find_and_delete(connect: Connect, service: Service, tmp_path: Path) -> None:
    client: Client = connect(service.url, service.key)
    file = signed_file(service, tmp_path, "7.0.1")
    made = client.agent_releases.push(file, notes="less memory")
    assert (made.version, made.notes, sorted(made.files)) == ("7.0.1", "less memory", ["linux-aarch64", "linux-x86_64"])
    assert client.agent_releases.find("7.0.1").id == made.id == client.agent_releases.push(file).id
    client.agent_releases.delete(made.id)
    with pytest.raises(PockClientError, match="there is no agent release '7.0.1'"):
        client.agent_releases.find("7.0.1")


def test_what_root_keys_did_not_sign_is_not_released(connect: Connect, service: Service, tmp_path: Path) -> None:
    client: Client = connect(service.url, service.key)
    file = tmp_path / "pock-agent.pyz"
    file.write_bytes(agent_file("7.1.0"))
    with pytest.raises(PockClientError, match="there is no release document .*agent-release sign"):
        client.agent_releases.push(file)
    document = tmp_path / "pock-agent.pyz.release.json"
    document.write_text("{}")
    with pytest.raises(PockClientError, match="is no release document"):
        client.agent_releases.push(file)
    other = tmp_path / "other"
    other.mkdir()
    signed = json.loads((signed_file(service, other, "7.1.1").parent / "pock-agent.pyz.release.json").read_text())
    signed["signatures"] = []
    document.write_text(json.dumps(signed))
    with pytest.raises(ServiceError, match="0 root keys"):
        client.agent_releases.push(file)
