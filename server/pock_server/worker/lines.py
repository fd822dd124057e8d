"""The worker's side of the JSON lines that `pock_server.runner.hearing` and `pock_server.checks.clerk` read."""

import json
import os
import sys
import threading
from dataclasses import dataclass, field
from typing import Any, TextIO

_DETAIL_CHARACTERS = 4000
"""More is not shown of why a build failed, and a line too long would not be understood."""


@dataclass(frozen=True)
class Lines:
    """Writes one JSON object a line; safe from any thread."""

    stream: TextIO
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def take_stdout(cls) -> "Lines":
        """Keep stdout for JSON lines: whatever else prints there, children included, goes to stderr from now on."""
        mine = os.fdopen(os.dup(1), "w", encoding="utf-8")
        sys.stdout.flush()
        os.dup2(2, 1)
        return cls(mine)

    def progress(self, stage: str, done: int, total: int) -> None:
        """How far a stage is; the compiler's callback."""
        self._write({"event": "progress", "stage": str(stage), "done": int(done), "total": int(total)})

    def log(self, text: str) -> None:
        """Something for the build's log."""
        self._write({"event": "log", "text": text})

    def failed(self, code: int, detail: str) -> None:
        """The build failed; of a reason too long, its beginning."""
        self._write({"event": "failed", "code": code, "detail": detail[:_DETAIL_CHARACTERS]})

    def artifact(self, summary: dict[str, Any]) -> None:
        """The build succeeded: `out/artifact.pock` is there."""
        self._write({"event": "artifact", "summary": summary})

    def answered(self, number: int, content: dict[str, Any]) -> None:
        """A question has this answer."""
        self._write({"event": "answered", "number": number, "content": content})

    def refused(self, number: int, code: int, detail: str, line: int | None) -> None:
        """A question cannot be answered; `line` of the recipe's text is why."""
        failed = {"code": code, "detail": detail[:_DETAIL_CHARACTERS], "line": line}
        self._write({"event": "refused", "number": number, **failed})

    def compiler(self, version: str, targets: list[dict[str, Any]]) -> None:
        """What the compiler is and can do."""
        self._write({"event": "compiler", "version": version, "targets": targets})

    def _write(self, message: dict[str, Any]) -> None:
        with self.lock:
            self.stream.write(json.dumps(message) + "\n")
            self.stream.flush()
