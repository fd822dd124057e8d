"""Files that look like the agent as one file, and documents that release them."""

import io
import zipfile
from datetime import datetime, timedelta
from typing import Any

from pock_server.agent_releases.document import TYPE, AgentFile, Release, time_text
from pock_server.agent_releases.schemas import ReleaseDocument
from pock_server.signing import Signer, read_key
from pock_server.trust.documents import sign
from tests.server.harness import Person, Server, digest_of


def agent_file(version: str, *machines: str, members: dict[str, bytes] | None = None) -> bytes:
    """A file of this version, for both machines unless some are given."""
    files = {"any/pock_agent/__init__.py": f'"""The agent."""\n\n__version__ = "{version}"\n'.encode()}
    files |= {f"{machine}/library.so": b"native" for machine in machines or ("x86_64", "aarch64")}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in (files | (members or {})).items():
            archive.writestr(zipfile.ZipInfo(name), data)  # the same at any time
    return content.getvalue()


def root_key(server: Server) -> Signer:
    """The service's own root key, which its host has."""
    return read_key(server.services.settings.effective_root_key_file)


def document(content: bytes, version: str, now: datetime, *signers: Signer, **changes: Any) -> ReleaseDocument:
    """A document about this file, signed by these keys; `changes` are made before."""
    file = AgentFile(sha256=digest_of(content), size=len(content))
    said: dict[str, Any] = {
        "version": version,
        "issued_at": time_text(now),
        "expires_at": time_text(now + timedelta(days=90)),
        "files": {"linux-x86_64": file, "linux-aarch64": file},
        "downgrade": False,
        "revert": True,
        **changes,
    }
    return sign(Release(**said).unsigned(), signers, TYPE)


def released(server: Server, person: Person, content: bytes, version: str = "0.2.0", **changes: Any) -> dict[str, Any]:
    """What the person sends to release the file, which is uploaded, signed by the service's root key."""
    person.upload(content)
    signed = document(content, version, server.clock.now(), root_key(server), **changes)
    return {"document": signed.model_dump(), "notes": "what is new"}


def facts_of_agent(version: str, arch: str = "aarch64") -> dict[str, Any]:
    """What an agent tells that can replace itself."""
    return {"agent_version": version, "features": ["updates"], "machine": arch, "target": "raspberry-pi-4"}
