"""Where an error becomes a sentence on stderr and an exit status, the same under `pock-client` and under `pock`."""

from __future__ import annotations

import os
import sys
import warnings
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from .. import PlainTextWarning
from ..errors import (
    BuildFailed,
    CampaignFailed,
    CredentialsError,
    PockClientError,
    RunFailed,
    SearchFailed,
    ServiceError,
    Unreachable,
    WaitTimeout,
)
from .console import note

_MOST_CHARACTERS = 1000


class Status(IntEnum):
    """What a command ends with. 2, wrong usage, is given by who reads the options."""

    DONE = 0
    """It did what it was asked to."""
    REFUSED = 1
    """The service or this machine refused; the sentence says why."""
    FAILED = 3
    """A build or run that was waited for failed or was cancelled."""
    UNREACHABLE = 4
    """No service answered."""
    TIMED_OUT = 5
    """What was waited for is not over, and goes on."""
    INTERRUPTED = 130
    """Ctrl-C."""


class Refused(PockClientError):
    """This command cannot do what it was asked to: nothing has that name, an answer was no."""


class Interrupted(PockClientError):
    """Ctrl-C while something was waited for. The message says how to go on waiting."""


_STATUS: tuple[tuple[type[Exception], Status], ...] = (
    (Interrupted, Status.INTERRUPTED),
    (BuildFailed, Status.FAILED),
    (RunFailed, Status.FAILED),
    (SearchFailed, Status.FAILED),
    (CampaignFailed, Status.FAILED),
    (WaitTimeout, Status.TIMED_OUT),
    (Unreachable, Status.UNREACHABLE),
)


class _Sentences:
    """What the library raises ends a command with a sentence."""

    def invoke(self, ctx: Any) -> Any:
        """Run it; raises Exit with the status."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("once", PlainTextWarning)
                warnings.showwarning = lambda message, *rest, **more: note(message)
                return super().invoke(ctx)  # type: ignore[misc]  # of the class beside
        except (typer.Exit, typer.TyperException):
            raise
        except PockClientError as error:
            raise typer.Exit(fail(ctx, sentence(ctx, error), status_of(error))) from None
        except (KeyboardInterrupt, typer.Abort):
            raise typer.Exit(fail(ctx, "interrupted", Status.INTERRUPTED)) from None
        except BrokenPipeError:  # the reader of our output has gone away: `… | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(Status.DONE) from None
        except OSError as error:
            place = f" '{error.filename}'" if error.filename else ""
            text = f"cannot read or write{place}: {error.strerror or error}"
            raise typer.Exit(fail(ctx, text, Status.REFUSED)) from None


class ServiceCommand(_Sentences, TyperCommand):
    """A command that talks to the service."""


class ServiceGroup(_Sentences, TyperGroup):
    """A command that talks to the service by itself, and has others below it."""


def program(ctx: typer.Context) -> str:
    """What the person typed: `pock` or `pock-client`."""
    return ctx.find_root().info_name or "pock-client"


def fail(ctx: typer.Context, text: str, status: Status) -> Status:
    """Say why the command ends; gives the status back."""
    text = " ".join(text.split()).rstrip(".")
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[:_MOST_CHARACTERS]}…"
    note(f"{program(ctx)}: {text}")
    return status


def status_of(error: Exception) -> Status:
    """The exit status that an error of the library stands for."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), Status.REFUSED)


def sentence(ctx: typer.Context, error: PockClientError) -> str:
    """The error's own sentence and, where this command knows more, what to do."""
    text = str(error)
    if isinstance(error, CredentialsError) or (isinstance(error, ServiceError) and error.status == 401):
        return f"{text.rstrip('.')}; sign in with `{program(ctx)} login URL`" if "login" not in text else text
    if isinstance(error, ServiceError) and error.status >= 500 and error.request_id:
        return f"{text.rstrip('.')} (request {error.request_id})"
    return text
