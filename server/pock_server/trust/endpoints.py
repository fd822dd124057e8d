"""Trust documents over HTTP. They are public: what they say is only as good as their signatures."""

import base64
import hashlib
from typing import Annotated

from fastapi import APIRouter, Path

from pock_server.dependencies import Agent, ServicesDep
from pock_server.devices.repository import Devices
from pock_server.http.problems import PROBLEMS, Failure, Problem
from pock_server.trust.keyring import find_document, latest_version
from pock_server.trust.schemas import Introduction, TrustDocument
from pock_server.trust.wrapping import CannotUnwrap

router = APIRouter(responses=PROBLEMS)


@router.get("/trust", tags=["trust"])
def get_trust(services: ServicesDep) -> TrustDocument:
    """The newest trust document: which keys may sign work."""
    with services.database.read() as session:
        return services.keys.current(session).document


@router.get("/trust/{version}", tags=["trust"])
def get_trust_version(version: Annotated[int, Path(ge=1, le=2**31 - 1)], services: ServicesDep) -> TrustDocument:
    """One version of the trust document; agents fetch them in order and verify each by the one before."""
    with services.database.read() as session:
        document = find_document(session, version)
        if document is None:
            newest = latest_version(session)
            raise Problem(Failure.NOT_FOUND, f"There is no trust document {version}; the newest is {newest}.")
        return document


@router.get("/agent/trust", tags=["agents"])
def introduce(agent: Agent, services: ServicesDep) -> Introduction:
    """The newest trust document for a device that has none, signed for it by the key that it pinned."""
    with services.database.read() as session:
        device = Devices(session, agent.workspace_id).require(agent.device_id)
        document = services.keys.current(session).document
        try:
            signer = services.keys.signer(session, device.signing_key_id or "")
        except CannotUnwrap:
            detail = f"The key {device.signing_key_id} that this device pinned is no longer used; enrol it again."
            raise Problem(Failure.STATE_CONFLICT, detail) from None
    digest = hashlib.sha256(base64.b64decode(document.payload)).hexdigest()
    message = f"pock-trust-introduction\n{agent.device_id}\n{digest}".encode()
    return Introduction(document=document, key_id=signer.key_id, signature=signer.sign(message))
