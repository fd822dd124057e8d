"""The secrets of webhooks, encrypted under the wrapping key and bound to their webhook."""

from sqlalchemy.orm import Session

from pock_server.trust.wrapping import CannotUnwrap, WrappingKey
from pock_server.webhooks.repository import all_webhooks
from pock_server.webhooks.tables import WebhookRecord


def wrap(wrapping: WrappingKey, webhook_id: str, secret: bytes) -> str:
    """The secret as the database has it; raises CannotUnwrap."""
    return wrapping.wrap_bytes(secret, _name(webhook_id))


def unwrap(wrapping: WrappingKey, webhook: WebhookRecord, newest_only: bool = False) -> bytes:
    """The secret; raises CannotUnwrap."""
    secret = wrapping.unwrap_bytes(webhook.wrapped_secret, _name(webhook.id), newest_only)
    if secret is None:
        raise CannotUnwrap(f"{wrapping.path} is not the wrapping key of {_name(webhook.id)}")
    return secret


def check_all(session: Session, wrapping: WrappingKey, newest_only: bool) -> None:
    """Raise CannotUnwrap for the first secret that the wrapping key does not open."""
    for webhook in all_webhooks(session):
        unwrap(wrapping, webhook, newest_only)


def rewrap_all(session: Session, wrapping: WrappingKey) -> None:
    """Put every secret under the newest wrapping key; raises CannotUnwrap."""
    for webhook in all_webhooks(session):
        webhook.wrapped_secret = wrap(wrapping, webhook.id, unwrap(wrapping, webhook))


def _name(webhook_id: str) -> str:
    return f"webhook {webhook_id}"
