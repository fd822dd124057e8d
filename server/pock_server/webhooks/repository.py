"""Queries on webhooks and deliveries."""

from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from pock_server.db.repository import Repository
from pock_server.webhooks.tables import DeliveryRecord, DeliveryState, Event, WebhookRecord


class Webhooks(Repository[WebhookRecord]):
    """The webhooks of one workspace."""

    row_class = WebhookRecord
    noun = "webhook"

    def listeners(self, event: Event) -> list[WebhookRecord]:
        """Those that want to be told of the event."""
        rows = self.session.scalars(self.select().where(WebhookRecord.enabled.is_(True)))
        return [row for row in rows if event in row.events]

    def forget_deliveries(self, row: WebhookRecord) -> None:
        """Delete the deliveries of a webhook that is being deleted."""
        self.session.execute(delete(DeliveryRecord).where(DeliveryRecord.webhook_id == row.id))


class Deliveries(Repository[DeliveryRecord]):
    """The deliveries of one workspace."""

    row_class = DeliveryRecord
    noun = "delivery"


def due_deliveries(session: Session, now: datetime, most: int) -> list[tuple[str, str]]:
    """Workspace and id of deliveries of all workspaces that are to be sent now. The workspaces take turns, so that the
    many that one of them waits for do not hold up another's."""
    turn = func.row_number().over(partition_by=DeliveryRecord.workspace_id, order_by=DeliveryRecord.next_at)
    columns = (DeliveryRecord.workspace_id, DeliveryRecord.id, DeliveryRecord.next_at, turn.label("turn"))
    due = select(*columns).where(DeliveryRecord.state == DeliveryState.PENDING, DeliveryRecord.next_at <= now)
    rows = due.subquery()
    query = select(rows.c.workspace_id, rows.c.id).where(rows.c.turn <= max(1, most // 4))
    found = session.execute(query.order_by(rows.c.turn, rows.c.next_at).limit(most))
    return [(workspace_id, row_id) for workspace_id, row_id in found]


def all_webhooks(session: Session) -> list[WebhookRecord]:
    """Those of all workspaces."""
    return list(session.scalars(select(WebhookRecord)))


def old_deliveries(session: Session, before: datetime, most: int) -> list[DeliveryRecord]:
    """Deliveries of all workspaces that ended before this moment."""
    return list(session.scalars(select(DeliveryRecord).where(DeliveryRecord.finished_at < before).limit(most)))
