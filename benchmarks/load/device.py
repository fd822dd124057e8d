"""One simulated device: its key, session, heartbeat and long poll, and runs that take a given time."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from benchmarks.load.figures import Figures, Stopwatch
from benchmarks.load.wire import Answer, Connection, ConnectionLost

BATCHES, STEPS_A_BATCH, BATCH_SECONDS = 4, 5, 0.5
"""A run reports this many batches of steps, one each so many seconds."""
STEPS = BATCHES * STEPS_A_BATCH
_FACTS_EVERY = 20
_PAUSES = (1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class Place:
    """Where the service listens."""

    host: str
    port: int


class Device:
    """A device from its enrolment on. Calls that fail are repeated as the agent repeats them, and counted."""

    def __init__(self, number: int, place: Place, figures: Figures) -> None:
        self.number, self.figures = number, figures
        self.id = ""
        self._key = Ed25519PrivateKey.generate()
        self._counter, self._token = 0, ""
        self._session = asyncio.Lock()
        self._beats, self._work = Connection(place.host, place.port), Connection(place.host, place.port)
        self.interval = 15.0
        self._busy: dict[str, Any] = {}

    async def enrol(self, token: str) -> None:
        """Become a device of the service and open the first session."""
        raw = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        body = {
            "token": token,
            "name": f"board-{self.number:05d}",
            "public_key": base64.b64encode(raw).decode(),
            "facts": _facts(self.number),
        }
        answer = await self._call(self._work, "enrol", "POST", "/v1/enroll", body)
        self.id = answer.json()["device_id"]
        await self._open_session(self._work)

    async def live(self) -> None:
        """Beat and poll until cancelled."""
        await asyncio.gather(self._beat_forever(), self._poll_forever())

    async def _beat_forever(self) -> None:
        await asyncio.sleep(random.uniform(0, self.interval))  # devices start at their own times
        count = 0
        while True:
            body: dict[str, Any] = {"state": "busy" if self._busy else "idle", **self._busy}
            if count % _FACTS_EVERY == 0:
                body["facts"] = _facts(self.number)
            answer = await self._call(self._beats, "heartbeat", "POST", "/v1/agent/heartbeat", body)
            self.interval = float(answer.json()["heartbeat_seconds"])
            count += 1
            await asyncio.sleep(self.interval * random.uniform(0.95, 1.05))

    async def _poll_forever(self) -> None:
        await asyncio.sleep(random.uniform(0, 5))
        while True:
            answer = await self._call(self._work, "poll", "GET", "/v1/agent/work?wait=25")
            if answer.status == 200:
                received = time.monotonic()
                work = json.loads(base64.b64decode(answer.json()["payload"]))
                self.figures.leased[work["run_id"]].append(received)
                await self._carry_out(work)

    async def _carry_out(self, work: dict[str, Any]) -> None:
        run, fence = work["run_id"], work["fence"]
        self._busy = {"run_id": run, "fence": fence}
        path = f"/v1/agent/runs/{run}"
        try:
            await self._call(self._work, "lease", "POST", f"{path}/lease", {"fence": fence})
            for member in work["artifact"]["members"].values():
                await self._call(self._work, "blob", "GET", f"/v1/agent/blobs/sha256/{member['sha256']}")
            for batch in range(BATCHES):
                await asyncio.sleep(BATCH_SECONDS)
                first = batch * STEPS_A_BATCH
                events = [_step(number) for number in range(first, first + STEPS_A_BATCH)]
                body = {"fence": fence, "first_seq": first, "events": events}
                await self._call(self._work, "events", "POST", f"{path}/events", body)
            body = {"fence": fence, "state": "succeeded", "report": _report()}
            answer = await self._call(self._work, "result", "POST", f"{path}/result", body)
            if answer.json()["state"] == "succeeded":
                self.figures.finished[run] += 1
        finally:
            self._busy = {}

    async def _open_session(self, connection: Connection) -> None:
        self._counter += 1
        issued_at = datetime.now(UTC).isoformat()
        message = f"pock-session\n{self.id}\n{self._counter}\n{issued_at}".encode()
        body = {
            "device_id": self.id,
            "counter": self._counter,
            "issued_at": issued_at,
            "signature": base64.b64encode(self._key.sign(message)).decode(),
        }
        answer = await self._call(connection, "session", "POST", "/v1/agent/session", body)
        self._token, self.interval = answer.json()["session_token"], float(answer.json()["heartbeat_seconds"])

    async def _call(self, connection: Connection, kind: str, method: str, path: str, body: Any = None) -> Answer:
        """Repeat the call until it succeeds; every failure is counted, every success timed."""
        for attempt in range(10_000):
            used = self._token
            with Stopwatch() as watch:
                answer = await self._try(connection, kind, method, path, body)
            if answer is not None and answer.status < 300:
                self.figures.note(kind, watch.seconds)
                return answer
            if answer is not None:
                self.figures.fail(f"{kind} {answer.status} {_code(answer)}")
                if answer.status == 401 and kind != "session":
                    async with self._session:
                        if used == self._token:
                            await self._open_session(connection)
                    continue
            await asyncio.sleep(_pause(answer, attempt))
        raise AssertionError("unreachable")

    async def _try(self, connection: Connection, kind: str, method: str, path: str, body: Any) -> Answer | None:
        try:
            return await connection.request(method, path, token=self._token or None, body=body)
        except ConnectionLost as error:
            self.figures.fail(f"{kind} lost: {str(error).split(': ', 1)[1][:60]}")
            return None


def _code(answer: Answer) -> str:
    try:
        return str(answer.json().get("failure_code"))
    except ValueError:
        return "?"


def _pause(answer: Answer | None, attempt: int) -> float:
    stated = answer.headers.get("retry-after") if answer else None
    longest = float(stated) if stated else _PAUSES[min(attempt, len(_PAUSES) - 1)]
    return longest * random.uniform(0.5, 1.5)


def _facts(number: int) -> dict[str, Any]:
    """About what an agent reports: a kilobyte."""
    return {
        "target": "raspberry-pi-4",
        "agent_version": "0.1.0",
        "hostname": f"board-{number:05d}",
        "cpu": {"model": "Cortex-A72", "cores": 4, "features": ["asimd", "crc32", "fp", "evtstrm"] * 6},
        "memory": {"total_bytes": 4 << 30, "free_bytes": 2_900_000_000 + number},
        "disk": {"total_bytes": 32 << 30, "free_bytes": 20_000_000_000 + number},
        "temperature_celsius": 51.2,
        "frequencies_mhz": [1500, 1500, 1500, 1500],
        "kernel": "6.6.31+rpt-rpi-v8",
        "notes": "x" * 400,
    }


def _step(number: int) -> dict[str, Any]:
    return {"event": "step", "step": number, "loss": 2.3 / (number + 1), "ms": 21.0 + number % 3, "phase": "train"}


def _report() -> dict[str, Any]:
    samples = [21.0 + number % 3 for number in range(STEPS)]
    step_ms = {"median": 22.0, "p10": 21.0, "p90": 23.0, "samples": samples}
    losses = [2.3 / (number + 1) for number in range(STEPS)]
    train = {"steps": STEPS, "loss": losses, "step_ms": step_ms, "peak_rss_bytes": 9 << 20, "arena_bytes": 1 << 20}
    return {"train": train, "eval_before": None, "eval_after": None, "health": {"before": {"temperature": 51.0}}}
