"""A small client of the service's REST interface (docs/reference/api.md): what a script of a user would do.

A refusal that the service calls retryable is tried again for a minute.
"""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

PART_BYTES = 4 << 20
POLL_SECONDS = 0.5
RETRY_SECONDS = 60.0
FINAL = frozenset({"succeeded", "failed", "cancelled"})

Json = dict[str, Any]


class ServiceError(Exception):
    """The service refused a request, or a build or run did not succeed; the message is the service's own sentence."""


class Client:
    """One connection with one API key."""

    def __init__(self, url: str, key: str) -> None:
        self._http = httpx.Client(
            base_url=f"{url}/v1", headers={"Authorization": f"Bearer {key}"}, timeout=60, trust_env=False
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *unused: object) -> None:
        self._http.close()

    def get(self, path: str, **query: Any) -> Json:
        """The JSON object at `path`."""
        return _object(self._request("GET", path, params=query))

    def post(self, path: str, body: Json) -> Json:
        """Create something; the request carries its own idempotency key."""
        return _object(self._request("POST", path, json=body, headers={"Idempotency-Key": str(uuid4())}))

    def upload(self, path: Path) -> str:
        """Store a file as a blob, in parts, and return its SHA-256; nothing is sent when the service has it."""
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        upload = self.post("/uploads", {"digest": digest, "size": len(content)})
        offset = int(upload["offset"])
        while not upload["complete"] and offset < len(content):
            part = content[offset : offset + PART_BYTES]
            self._request("PATCH", f"/uploads/{upload['id']}", content=part, headers={"Upload-Offset": str(offset)})
            offset += len(part)
        return digest

    def wait(self, path: str, seen: Callable[[Json], None], seconds: float) -> Json:
        """Poll the build or run at `path` until it succeeds; `seen` gets each answer.

        Raises ServiceError when it fails, is cancelled, or takes longer than `seconds`.
        """
        deadline = time.monotonic() + seconds
        while True:
            answer = self.get(path)
            seen(answer)
            if answer["state"] == "succeeded":
                return answer
            if answer["state"] in FINAL:
                detail = (answer.get("failure") or {}).get("detail", "no reason given")
                raise ServiceError(f"{path} {answer['state']}: {detail}")
            if time.monotonic() > deadline:
                raise ServiceError(f"{path} is still {answer['state']} after {seconds:.0f} s")
            time.sleep(POLL_SECONDS)

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            response = self._http.request(method, path, **options)
            if not response.is_error:
                return response
            problem = response.json() if "json" in response.headers.get("content-type", "") else {}
            if problem.get("retryable") and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
                continue
            raise ServiceError(f"{method} {path}: {problem.get('detail') or problem.get('title') or response.text}")


def _object(response: httpx.Response) -> Json:
    return dict(response.json())
