"""When a cron expression is due, in a time zone. The rules about changes of the clock are those of Debian's cron.

A time that the clocks skip in spring is due when they have gone on; one that they pass twice in autumn is due the
first time.
Expressions with a star in minutes or hours are due as often as the hour passes.
"""

import zoneinfo
from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

MAX_COUNTED = 10_000
_FIELDS = 5


class BadCron(ValueError):
    """This is no cron expression of five fields, or one that is never due."""


def next_time(cron: str, timezone: str, after: datetime) -> datetime:
    """The first moment after `after` that the expression is due, in UTC. Raises `BadCron`."""
    if len(cron.split()) != _FIELDS:
        raise BadCron("a cron expression has five fields: minute, hour, day of month, month, day of week")
    try:
        found = next(CronSim(cron, after.astimezone(zoneinfo.ZoneInfo(timezone))))
    except StopIteration:
        raise BadCron(f"{cron!r} is never due") from None
    except (CronSimError, AssertionError, TypeError, ValueError, OverflowError) as error:
        raise BadCron(f"{cron!r} is no cron expression: {str(error) or 'it mixes forms'}") from None
    return found.astimezone(UTC)


def times_until(cron: str, timezone: str, first: datetime, now: datetime) -> int:
    """How often it was due from `first`, when it was, to `now`, at most `MAX_COUNTED`."""
    count, moment = 0, first
    while moment <= now and count < MAX_COUNTED:
        count += 1
        moment = next_time(cron, timezone, moment)
    return count


def is_timezone(name: str) -> bool:
    """Whether there is a time zone of this name, such as Europe/Berlin."""
    return name in zoneinfo.available_timezones()
