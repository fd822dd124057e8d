"""Declares the `Idempotency-Key` header; the middleware acts on it."""

from typing import Annotated

from fastapi import Depends, Header

NAME = "Idempotency-Key"


def _declare_header(
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=200, description="Repeats with this key are answered once.")
    ] = None,
) -> None:
    """Puts the header into the OpenAPI document."""


IDEMPOTENT = Depends(_declare_header)
"""For `dependencies=` of every POST that the middleware guards."""
