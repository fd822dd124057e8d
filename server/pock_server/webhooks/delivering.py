"""Sends what is due, and writes down what came of it. Each message arrives at least once, or is given up after a day.

A delivery is put off before it is sent: whoever is killed meanwhile leaves it to be sent again.
"""

import asyncio
import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from pock_server.audit.service import Action, changed, record
from pock_server.db.unit import Unit
from pock_server.http.guard import networks
from pock_server.services import Services
from pock_server.trust.wrapping import CannotUnwrap
from pock_server.webhooks.repository import Deliveries, Webhooks, due_deliveries
from pock_server.webhooks.secrets import unwrap
from pock_server.webhooks.sending import Unsent, send
from pock_server.webhooks.signing import headers
from pock_server.webhooks.tables import DeliveryRecord, DeliveryState, WebhookRecord

PAUSES = (5, 60, 300, 1800, 7200, 14_400, 28_800, 36_000)
"""Seconds before each further try: together a little more than a day."""
PATIENCE = timedelta(days=5)
"""A webhook that has only failed for so long is disabled."""
_AT_ONCE = 32
_LEASE = timedelta(seconds=60)
_GONE = 410


@dataclass(frozen=True)
class Letter:
    """A delivery on its way."""

    workspace_id: str
    delivery_id: str
    url: str
    headers: dict[str, str]
    body: bytes


async def deliver_due(services: Services) -> int:
    """Send what is due, at most a few dozen at once; how many there were."""
    letters = await asyncio.to_thread(_take, services)
    await asyncio.gather(*(_deliver(services, letter) for letter in letters))
    return len(letters)


def _take(services: Services) -> list[Letter]:
    now = services.clock.now()
    with services.database.read() as session:
        due = due_deliveries(session, now, _AT_ONCE)
    return [letter for workspace_id, row_id in due if (letter := _take_one(services, workspace_id, row_id)) is not None]


def _take_one(services: Services, workspace_id: str, row_id: str) -> Letter | None:
    """The delivery, put off and signed, if it is still due; one whose webhook was disabled is given up."""
    now = services.clock.now()
    with services.database.write() as unit:
        row = Deliveries(unit.session, workspace_id).find(row_id, lock=True)
        if row is None or row.state != DeliveryState.PENDING or row.next_at is None or row.next_at > now:
            return None
        webhook = Webhooks(unit.session, workspace_id).require(row.webhook_id)
        if not webhook.enabled:
            _give_up(row, "The webhook was disabled.", now)
            return None
        try:
            secret = unwrap(services.keys.wrapping, webhook)
        except CannotUnwrap as error:
            _give_up(row, f"Its secret cannot be read: {error}."[:500], now)
            return None
        row.attempts += 1
        row.next_at = now + _LEASE
        body = row.payload.encode()
        signed = headers(secret, f"msg_{row.id}", int(now.timestamp()), body)
        return Letter(workspace_id, row_id, webhook.url, signed, body)


async def _deliver(services: Services, letter: Letter) -> None:
    allowed = networks(services.settings.webhook_networks)
    try:
        status, problem = await send(letter.url, letter.headers, letter.body, allowed), None
    except Unsent as error:
        status, problem = None, str(error)
    await asyncio.to_thread(_write_down, services, letter, status, problem)


def _write_down(services: Services, letter: Letter, status: int | None, problem: str | None) -> None:
    now = services.clock.now()
    with services.database.write() as unit:
        row = Deliveries(unit.session, letter.workspace_id).find(letter.delivery_id, lock=True)
        if row is None or row.state != DeliveryState.PENDING:
            return
        webhook = Webhooks(unit.session, letter.workspace_id).require(row.webhook_id, lock=True)
        row.status = status
        if status is not None and 200 <= status < 300:
            row.state, row.next_at, row.finished_at, row.problem = DeliveryState.DELIVERED, None, now, None
            webhook.failing_since = None
            return
        row.problem = problem or f"It answered {status}."
        webhook.failing_since = webhook.failing_since or now
        if row.attempts > len(PAUSES):
            _give_up(row, row.problem, now)
        else:
            row.next_at = now + timedelta(seconds=PAUSES[row.attempts - 1] * random.uniform(0.9, 1.1))
        if status == _GONE:
            _disable(unit, webhook, "It answered 410: it wants no more.", now)
        elif now - webhook.failing_since >= PATIENCE:
            _disable(unit, webhook, f"It has failed since {webhook.failing_since.isoformat(timespec='seconds')}.", now)


def _give_up(row: DeliveryRecord, problem: str, now: datetime) -> None:
    row.state, row.next_at, row.finished_at, row.problem = DeliveryState.FAILED, None, now, problem


def _disable(unit: Unit, webhook: WebhookRecord, reason: str, now: datetime) -> None:
    if webhook.enabled:
        webhook.enabled, webhook.disabled_reason = False, reason
        changes = changed({"enabled": True, "reason": None}, {"enabled": False, "reason": reason})
        record(unit, Action.WEBHOOK_CHANGE, webhook, webhook.url[:200], now, changes)
