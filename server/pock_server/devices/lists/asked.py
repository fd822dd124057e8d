"""Which devices a list is asked for, as the query string says it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Query
from sqlalchemy import ColumnElement, exists, or_

from pock_server.devices.selectors.conditions import conditions
from pock_server.devices.selectors.grammar import MAX_CHARACTERS, BadSelector, Term, parse
from pock_server.devices.tables import DeviceLabelRecord, DeviceRecord
from pock_server.http.fields import Id
from pock_server.http.problems import Failure, Problem


@dataclass(frozen=True)
class Asked:
    """What is asked for; None asks for nothing in particular."""

    terms: tuple[Term, ...] | None
    text: str | None
    throttled: bool | None
    resting: bool | None
    token_id: str | None

    def filters(self, since: datetime) -> Iterator[ColumnElement[bool]]:
        """What a device meets that is asked for; `since` is what `heard_since` says."""
        if self.terms is not None:
            yield from conditions(self.terms, since)
        if self.text is not None and self.text.strip():
            yield _holds(self.text.strip())
        if self.throttled is not None:
            yield DeviceRecord.throttled.is_(True) if self.throttled else DeviceRecord.throttled.is_not(True)
        if self.resting is not None:
            yield DeviceRecord.resting.is_not(None) if self.resting else DeviceRecord.resting.is_(None)
        if self.token_id is not None:
            yield DeviceRecord.token_id == self.token_id


def _holds(text: str) -> ColumnElement[bool]:
    columns = (DeviceRecord.name, DeviceRecord.pool, DeviceRecord.target)
    written = DeviceLabelRecord.key + "=" + DeviceLabelRecord.value
    mine = DeviceLabelRecord.device_id == DeviceRecord.id
    labelled = exists().where(mine, written.icontains(text, autoescape=True))
    return or_(*(column.icontains(text, autoescape=True) for column in columns), labelled)


async def asked(
    on: Annotated[
        str | None,
        Query(
            max_length=MAX_CHARACTERS,
            description="Those that a selector chooses, such as `pool=kitchen,ram>=2GiB,room!=attic,pi-*`.",
        ),
    ] = None,
    text: Annotated[
        str | None,
        Query(
            max_length=200,
            description="Those whose name, pool, target or one of the labels, written `key=value`, holds this text; "
            "upper and lower case are the same.",
        ),
    ] = None,
    throttled: Annotated[bool | None, Query(description="Those that say that they are slowed down, or not.")] = None,
    resting: Annotated[bool | None, Query(description="Those that do no work for now, or not.")] = None,
    token_id: Annotated[Id | None, Query(description="The one that this enrolment token let in, or none.")] = None,
) -> Asked:
    """What the query string asks for; a 422 `Problem` for what is no selector."""
    try:
        terms = None if on is None else parse(on)
    except BadSelector as error:
        raise Problem(Failure.INVALID, f"query.on: {error}.") from None
    return Asked(terms, text, throttled, resting, token_id)


AskedQuery = Annotated[Asked, Depends(asked)]
