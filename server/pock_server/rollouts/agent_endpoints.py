"""Offers of other versions of the agent over HTTP, for agents."""

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from pock_server.dependencies import Agent, ServicesDep
from pock_server.http.problems import PROBLEMS
from pock_server.rollouts.offers import note_report, sealed_offer
from pock_server.rollouts.schemas import UpdateNoted, UpdateOffer, UpdateReport

router = APIRouter(prefix="/agent", tags=["agents"], responses=PROBLEMS)


@router.get("/update", response_model=UpdateOffer, responses={204: {"description": "Nothing is offered."}})
def get_update(agent: Agent, services: ServicesDep) -> Response:
    """The other version that is offered to this device, signed for it."""
    offer = sealed_offer(services, agent)
    return Response(status_code=204) if offer is None else JSONResponse(offer.model_dump())


@router.post("/update")
def post_update(body: UpdateReport, agent: Agent, services: ServicesDep) -> UpdateNoted:
    """Tell how it goes with an offer."""
    with services.database.write() as unit:
        return UpdateNoted(state=note_report(unit, agent, body, services.clock.now()))
