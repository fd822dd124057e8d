"""Two releases of the service and the agent as processes: the one that landed before this work, and the present one."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.agent import fake_model

ROOT = Path(__file__).parents[2]
LANDED = "895abba48bfdeb28b52d2c0d1b6d33022aa91a4f"
"""The commit whose data and whose agents the present service takes over."""
LANDED_REVISION = "0005"
"""The database revision of that commit."""
_WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Release:
    """A checkout whose programs are run as processes."""

    root: Path

    def environment(self, **variables: str) -> dict[str, str]:
        """Variables with which Python imports this release and no other."""
        path = os.pathsep.join(str(self.root / part) for part in ("server", "device_agent", "compiler", "."))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("POCK_")}
        return {**kept, "PYTHONPATH": path, **variables}

    def command(self, variables: Mapping[str, str], program: str, *arguments: str) -> str:
        """What `pock-server` or `pock-agent` prints; it must succeed."""
        module = {"pock-server": "pock_server.cli", "pock-agent": "pock_agent.cli"}[program]
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; from {module} import main; sys.exit(main())", *arguments],
            env=self.environment(**variables),
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=_WAIT_SECONDS,
        )
        assert done.returncode == 0, f"{program} {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    @contextlib.contextmanager
    def serving(self, variables: Mapping[str, str]) -> Iterator[str]:
        """The service while the block runs; where it listens."""
        process = subprocess.Popen(
            [sys.executable, "-c", "from pock_server.cli import main; main()", "serve", "--port", "0", "--json"],
            env=self.environment(**variables),
            cwd=self.root,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            yield str(json.loads(process.stdout.readline())["url"])
        finally:
            process.terminate()
            process.communicate(timeout=_WAIT_SECONDS)

    def enrol(self, url: str, token: str, state: Path) -> None:
        """Make `state` the state directory of a new device."""
        self.command({}, "pock-agent", "enroll", url, token, "--state-dir", str(state))

    def work_once(self, state: Path) -> None:
        """Have the device carry out one run."""
        self.command({}, "pock-agent", "run", "--once", "--state-dir", str(state))


PRESENT = Release(ROOT)


def landed(folder: Path) -> Release:
    """The landed release, unpacked from the history into `folder`."""
    archive = subprocess.run(
        ["git", "archive", LANDED, "server", "device_agent", "tests/agent"], cwd=ROOT, capture_output=True
    )
    assert archive.returncode == 0, f"these tests need the history: {archive.stderr.decode()}"
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return Release(folder)


@dataclass(frozen=True)
class Person:
    """Someone with an API key, at either release."""

    url: str
    key: str

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """The JSON answer, or the bytes of any other."""
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/v1{path}", content, method=method)
        sent = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **(headers or {})}
        for name, value in sent.items():
            request.add_header(name, value)
        with urllib.request.urlopen(request, timeout=_WAIT_SECONDS) as answer:
            raw = answer.read()
            return json.loads(raw) if raw and "json" in (answer.headers.get("Content-Type") or "") else raw

    def get(self, path: str) -> Any:
        """What a GET answers."""
        return self.call("GET", path)

    def upload(self, content: bytes) -> str:
        """Upload a blob; its digest."""
        digest = sha256(content).hexdigest()
        upload = self.call("POST", "/uploads", {"digest": digest, "size": len(content)})
        if not upload["complete"]:
            octets = {"Upload-Offset": "0", "Content-Type": "application/octet-stream"}
            self.call("PATCH", f"/uploads/{upload['id']}", content, octets)
        return digest

    def dataset(self) -> str:
        """A new dataset's id."""
        digest = self.upload(fake_model.dataset({}))
        return str(self.call("POST", "/datasets", {"name": "told", "digest": digest})["id"])

    def build(self) -> str:
        """A finished build's id."""
        wait_for(self._knows_targets, "the description of the compiler")
        model = self.call("POST", "/models", {"name": "net", "digest": self.upload(b"a model")})
        order = {"model_id": model["id"], "recipe": {"batch": 2}, "target": "host"}
        build = str(self.call("POST", "/builds", order)["id"])
        wait_for(lambda: self.get(f"/builds/{build}")["state"] == "succeeded", "the build")
        return build

    def _knows_targets(self) -> bool:
        try:
            return bool(self.get("/targets")["items"])
        except urllib.error.HTTPError as error:
            assert error.code == 503
            return False

    def run(self, build: str, device: str) -> str:
        """Ask for a run; its id."""
        data = self.dataset()
        order = {"build_id": build, "device_id": device, "dataset_id": data, "eval_dataset_id": data, "steps": 5}
        return str(self.call("POST", "/runs", {**order, "save_weights": True})["id"])

    def token(self) -> str:
        """A new enrolment token."""
        return str(self.call("POST", "/enrollment-tokens", {})["token"])


def device_of(release: Release, state: Path) -> str:
    """The id of the device with this state directory."""
    return str(
        json.loads(release.command({}, "pock-agent", "status", "--json", "--state-dir", str(state)))["device_id"]
    )


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Return when the condition holds."""
    end = time.monotonic() + _WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)
