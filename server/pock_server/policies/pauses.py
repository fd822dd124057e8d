"""Pauses of a run: its device told that a policy forbids work for now. Its time stands still meanwhile."""

from datetime import datetime, timedelta

from pock_server.db.unit import Unit
from pock_server.events.repository import Events
from pock_server.runs.schemas import PausedIn, PausedOut
from pock_server.runs.tables import RunRecord
from pock_server.settings import Settings


def note_pause(unit: Unit, run: RunRecord, told: PausedIn | None, settings: Settings, now: datetime) -> None:
    """Keep what the device told with a renewal of its lease: that it is paused, or that it works."""
    if told is not None:
        _pause(unit, run, told, settings, now)
    elif run.paused is not None:
        _go_on(unit, run, settings, now)


def forget_pause(run: RunRecord) -> None:
    """The lease is over, and its pauses with it."""
    run.paused, run.seconds_left, run.paused_seconds = None, None, 0.0


def paused_of(run: RunRecord) -> PausedOut | None:
    """The present pause, as the API shows it."""
    return None if run.paused is None else PausedOut(**run.paused)


def _pause(unit: Unit, run: RunRecord, told: PausedIn, settings: Settings, now: datetime) -> None:
    since = now if run.paused is None else _since(run)
    if run.paused is None:
        run.seconds_left = None if run.run_ends_at is None else (run.run_ends_at - now).total_seconds()
        _tell(unit, run, "paused", told.model_dump(mode="json"), now)
    paused = {"since": since.isoformat(), **told.model_dump(mode="json")}
    if paused != run.paused:
        run.paused = paused
    # Until the next renewal, and no longer: the pause of a device that is gone ends with its lease.
    _move_end(run, settings, now + timedelta(seconds=settings.paused_lease_seconds))


def _go_on(unit: Unit, run: RunRecord, settings: Settings, now: datetime) -> None:
    _move_end(run, settings, now)
    run.paused_seconds += max(0.0, (now - _since(run)).total_seconds())
    run.paused = run.seconds_left = None
    _tell(unit, run, "resumed", {}, now)


def _move_end(run: RunRecord, settings: Settings, pause_ends: datetime) -> None:
    """The wall-clock limit of a run whose present pause goes on until `pause_ends`; beyond the longest pause that a run
    may make in all, time passes."""
    if run.seconds_left is None:
        return
    allowed = max(0.0, settings.max_pause_seconds - run.paused_seconds)
    pause = min((pause_ends - _since(run)).total_seconds(), allowed)
    run.run_ends_at = _since(run) + timedelta(seconds=run.seconds_left + pause)


def _since(run: RunRecord) -> datetime:
    assert run.paused is not None
    return datetime.fromisoformat(run.paused["since"])


def _tell(unit: Unit, run: RunRecord, kind: str, data: dict[str, str | None], now: datetime) -> None:
    Events(unit.session, run.workspace_id).append(run.id, kind, data, now)
    unit.announce(f"run:{run.id}")
