"""What the leading process does for rows whose time has come, one row at a time.

A duty is repeated after every failure and every restart: what it does to a row must be harmless to repeat.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

import pock_server.benchmarks.duty
import pock_server.rollouts.duty
import pock_server.tuning.duty
from pock_server.campaigns.advancing import advance
from pock_server.campaigns.repository import open_campaigns
from pock_server.federations import rounds
from pock_server.federations.repository import open_federations
from pock_server.http.problems import DATABASE_DOWN, Problem
from pock_server.runs.waiting import end_wait, waited_enough
from pock_server.schedules.keeping import keep
from pock_server.schedules.repository import due_schedules
from pock_server.services import Services

_log = logging.getLogger(__name__)

Row = tuple[str, str]
"""A row's workspace and id."""


@dataclass(frozen=True)
class Duty:
    """`due` finds the rows of all workspaces that something is to be done for; `do` deals with one, in transactions of
    its own, and looks first whether it is still to be done."""

    name: str
    due: Callable[[Session, datetime], Iterable[Row]]
    do: Callable[[Services, str, str], None]


DUTIES: tuple[Duty, ...] = (
    Duty("federation", open_federations, rounds.advance),
    Duty("waiting run", waited_enough, end_wait),
    Duty("campaign", open_campaigns, advance),
    Duty("schedule", due_schedules, keep),
    Duty("tuning", pock_server.tuning.duty.due, pock_server.tuning.duty.go_on),
    Duty("benchmark", pock_server.benchmarks.duty.due, pock_server.benchmarks.duty.do),
    Duty("rollout", pock_server.rollouts.duty.due, pock_server.rollouts.duty.do),
)
"""Longer works that consist of runs and builds: each looks what became of its parts, and asks for the next ones."""


def fulfil(services: Services, duties: Iterable[Duty]) -> None:
    """Deal with all rows that are due; none can hold up the others."""
    now = services.clock.now()
    with services.database.read() as session:  # one for all: this is asked every second, and nearly always for nothing
        due = [(duty, row) for duty in duties for row in duty.due(session, now)]
    for duty, (workspace_id, row_id) in due:
        _do(services, duty, workspace_id, row_id)


def _do(services: Services, duty: Duty, workspace_id: str, row_id: str) -> None:
    try:
        duty.do(services, workspace_id, row_id)
    except Problem as problem:  # somebody moved the row first: then nothing is to be done
        _log.info("%s %s: %s", duty.name, row_id, problem.detail)
    except DATABASE_DOWN:
        raise
    except Exception:
        _log.exception("%s %s could not be dealt with; the others are", duty.name, row_id)
