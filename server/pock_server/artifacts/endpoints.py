"""Artifacts over HTTP."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from pock_server.artifacts.repository import Artifacts
from pock_server.artifacts.schemas import ArtifactOut
from pock_server.artifacts.service import describe
from pock_server.dependencies import Reader, ServicesDep
from pock_server.http.fields import Digest
from pock_server.http.problems import PROBLEMS

router = APIRouter(prefix="/artifacts", tags=["artifacts"], responses=PROBLEMS)


# The manifest is the compiler's text: it is passed on as it is, and only documented, not rewritten, by `ArtifactOut`.
@router.get("/{digest}", response_model=None, responses={200: {"model": ArtifactOut}})
def get_artifact(digest: Digest, caller: Reader, services: ServicesDep) -> JSONResponse:
    """The artifact's manifest; its bytes and those of its members are blobs."""
    with services.database.read() as session:
        return JSONResponse(describe(Artifacts(session, caller.workspace_id).require(digest), services.blobs))
