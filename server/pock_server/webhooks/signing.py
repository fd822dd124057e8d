"""Signatures as the Standard Webhooks specification has them (https://www.standardwebhooks.com), version v1."""

import base64
import hashlib
import hmac
import os

PREFIX = "whsec_"
_SECRET_BYTES = 32


def new_secret() -> bytes:
    """A new secret."""
    return os.urandom(_SECRET_BYTES)


def shown(secret: bytes) -> str:
    """The secret as receivers are given it."""
    return PREFIX + base64.b64encode(secret).decode()


def headers(secret: bytes, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a message; `timestamp` in seconds since the epoch. A message that is sent again keeps its id."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}
