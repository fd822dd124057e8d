# Generated from pock_client/asynchronous by `python -m client.generate`.
"""Schedules: campaigns and benchmarks that are asked for again and again, at the times of a cron expression."""

from __future__ import annotations

from msgspec import UNSET

from pock_client.calls import part, sending
from pock_client.pausing import Stream
from pock_client.schema import (
    BenchmarkIn,
    CampaignIn,
    Schedule,
    ScheduleChange,
    Scheduled,
    ScheduleIn,
    SchedulePage,
    Time,
    TimePage,
)
from pock_client.synchronous.named import Named
from pock_client.synchronous.transport import Transport


class Schedules(Named[Schedule]):
    """`client.schedules`."""

    words = "schedule"
    path = "/schedules"
    kind = Schedule
    page = SchedulePage

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)

    def create(
        self,
        *,
        name: str,
        cron: str,
        what: CampaignIn | BenchmarkIn,
        timezone: str = "UTC",
        skip_if_running: bool = True,
    ) -> Schedule:
        """Ask for a campaign (of `client.campaigns.body`) or a benchmark (of `client.benchmarks.body`) at the times of
        a cron expression of five fields. With `skip_if_running`, a time passes while the last one is not over."""
        body = ScheduleIn(
            name=name,
            cron=cron,
            timezone=timezone,
            what=Scheduled(campaign=what) if isinstance(what, CampaignIn) else Scheduled(benchmark=what),
            skip_if_running=skip_if_running,
        )
        return self._transport.json(sending("POST", self.path, body, once=True), Schedule)

    def change(
        self, ident: str, *, enabled: bool | None = None, cron: str | None = None, timezone: str | None = None
    ) -> Schedule:
        """Change what is given; the rest stays."""
        body = ScheduleChange(
            enabled=UNSET if enabled is None else enabled, cron=cron or UNSET, timezone=timezone or UNSET
        )
        return self._transport.json(sending("PATCH", f"{self.path}/{part(ident)}", body), Schedule)

    def times(self, ident: str) -> Stream[Time]:
        """The times that it was due, newest first, and what became of each."""
        return self._transport.pages(f"{self.path}/{part(ident)}/times", TimePage, {})
