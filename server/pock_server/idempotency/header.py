"""The `Idempotency-Key` header of an endpoint: declares it, and keeps the answer in the endpoint's own transaction."""

from typing import Annotated, TypeVar

from fastapi import Depends, Header, Request
from pydantic import BaseModel

from pock_server.db.unit import Unit
from pock_server.idempotency.service import Reservation

NAME = "Idempotency-Key"
STATE = "idempotency"
"""Where the middleware leaves the request's reservation for the endpoint."""

Answer = TypeVar("Answer", bound=BaseModel)


class Remember:
    """What the endpoint answers is stored for repeats together with what it did, or not at all."""

    def __init__(self, reservation: Reservation | None) -> None:
        self._reservation = reservation

    def __call__(self, unit: Unit, answer: Answer, status: int) -> Answer:
        """The answer, stored when `unit` is committed, if the request has a key."""
        if self._reservation is not None:
            self._reservation.keep(unit, status, answer.model_dump(mode="json"))
        return answer


async def _remember(
    request: Request,
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=200, description="Repeats with this key are answered once.")
    ] = None,
) -> Remember:
    return Remember(getattr(request.state, STATE, None))


Once = Annotated[Remember, Depends(_remember)]
"""A parameter of every POST that the middleware guards."""
