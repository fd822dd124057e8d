"""People at the load: they let devices in, submit runs at a steady rate, watch streams, and ask whether all is well."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Any

import httpx

from benchmarks.load.device import STEPS, Place
from benchmarks.load.figures import Figures, Stopwatch
from benchmarks.load.wire import Connection, ConnectionLost

OWN_DELAY = "load itself"
_FINAL = frozenset({"succeeded", "failed", "cancelled"})


class Person:
    """Someone with an API key and a connection."""

    def __init__(self, place: Place, key: str, figures: Figures) -> None:
        self.place, self.key, self.figures = place, key, figures
        self._connection = Connection(place.host, place.port)

    async def call(self, kind: str, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON; waits as long as a 429 or 503 says, and counts every other failure."""
        while True:
            try:
                with Stopwatch() as watch:
                    answer = await self._connection.request(method, path, token=self.key, body=body)
            except ConnectionLost as error:
                self.figures.fail(f"{kind} lost: {error}")
                await asyncio.sleep(1)
                continue
            if answer.status < 300:
                self.figures.note(kind, watch.seconds)
                return answer.json() if answer.body else None
            if answer.status not in (429, 503):
                self.figures.fail(f"{kind} {answer.status}")
            await asyncio.sleep(float(answer.headers.get("retry-after", "1")))

    async def append(self, upload: str, data: bytes) -> None:
        """Send all bytes of an upload."""
        headers = {"Authorization": f"Bearer {self.key}", "Upload-Offset": "0"}
        url = f"http://{self.place.host}:{self.place.port}/v1/uploads/{upload}"
        async with httpx.AsyncClient(trust_env=False) as client:
            (await client.patch(url, content=data, headers=headers)).raise_for_status()

    async def submit_forever(self, devices: Sequence[str], order: dict[str, Any], per_minute: float) -> None:
        """Ask for a run on a random device, at a steady rate whatever the answers take."""
        pause = 60 / per_minute
        due = time.monotonic()
        while True:
            due += pause
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            body = {**order, "device_id": random.choice(devices), "steps": STEPS}
            run = await self.call("submit", "POST", "/v1/runs", body)
            self.figures.submitted[run["id"]] = time.monotonic()

    async def watch_forever(self) -> None:
        """Follow one run after the other as a page does: the list, and the events of the newest run to its end."""
        timeout = httpx.Timeout(60)
        base = f"http://{self.place.host}:{self.place.port}"
        headers = {"Authorization": f"Bearer {self.key}"}
        async with httpx.AsyncClient(base_url=base, headers=headers, timeout=timeout, trust_env=False) as client:
            while True:
                runs = await self.call("list", "GET", "/v1/runs?limit=20")
                open_runs = [run["id"] for run in runs["items"] if run["state"] not in _FINAL]
                if open_runs:
                    await self._follow(client, random.choice(open_runs))
                await asyncio.sleep(2)

    async def _follow(self, client: httpx.AsyncClient, run: str) -> None:
        try:
            async with client.stream("GET", f"/v1/runs/{run}/events") as stream:
                async for _ in stream.aiter_lines():
                    pass
        except httpx.HTTPError as error:
            self.figures.fail(f"stream {type(error).__name__}")

    async def unfinished(self) -> list[str]:
        """States of the submitted runs that did not succeed, one entry a run."""
        states = []
        for run in self.figures.submitted:
            found = await self.call("run", "GET", f"/v1/runs/{run}")
            if found["state"] != "succeeded":
                states.append(str(found["state"]))
        return states


async def probe_forever(place: Place, figures: Figures, pause: float = 0.1) -> None:
    """Ask `/healthz` again and again."""
    connection = Connection(place.host, place.port)
    while True:
        try:
            with Stopwatch() as watch:
                answer = await connection.request("GET", "/healthz")
            if answer.status == 200:
                figures.note("healthz", watch.seconds)
            else:
                figures.fail(f"healthz {answer.status}")
        except ConnectionLost as error:
            figures.fail(f"healthz lost: {error}")
        await asyncio.sleep(pause)


async def notice_own_delay(figures: Figures, pause: float = 0.1) -> None:
    """Note how much later than asked for this process gets its turn: every figure holds as much of its own making."""
    while True:
        due = time.monotonic() + pause
        await asyncio.sleep(pause)
        figures.note(OWN_DELAY, max(0.0, time.monotonic() - due))
