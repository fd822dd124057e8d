"""Conversations as text, by a folder's templates, which run in a process with bounds on time, memory and length."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

from ...errors import DataError, PockError
from ..conversations import Conversation
from .folder import DEFAULT, WITH_TOOLS, ChatFolder

BEGIN, END = "\ufdd0", "\ufdd1"
"""Around a generation block in what the process says; code points that are no characters (`renderer`)."""
_OLDEST = (3, 1, 6)
"""Before it, jinja2's sandbox has known holes."""
_MOST_REPLY = 13 << 24
"""Bytes of a line: a character is at most twelve bytes of JSON."""
_OWN = frozenset({"messages", "tools", "documents", "add_generation_prompt"})
Extent = tuple[int, int]


@dataclass(frozen=True)
class Bounds:
    """Of one rendering: seconds of processor time, characters of its text; of the process: bytes of memory."""

    seconds: int = 10
    characters: int = 16 << 20
    memory: int = 1 << 30


@dataclass(frozen=True)
class Rendered:
    """A conversation's text, and where in it the template's generation blocks begin and end, in characters."""

    text: str
    blocks: tuple[Extent, ...]


class Renderer:
    """Templates ready to render. `with` ends the process.

    variables   what templates read beside messages, tools and special tokens, by name: plain data

    Raises DataError where a template is no Jinja or reads no such variable, PockError where the library is missing."""

    def __init__(
        self, folder: ChatFolder, variables: Mapping[str, Any] | None = None, bounds: Bounds | None = None
    ) -> None:
        _check_library()
        self._folder, self._bounds = folder, bounds or Bounds()
        limits = (str(self._bounds.seconds), str(self._bounds.memory))
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("renderer.py")), *limits],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        given = dict(variables or {})
        order = {
            "templates": folder.templates,
            "tokens": folder.tokens,
            "variables": given,
            "characters": self._bounds.characters,
        }
        try:
            said = self._asked(order)
            _check_read(given, said["reads"])
            self._marks: dict[str, bool] = said["marks"]
        except ValueError as error:
            self.close()
            raise DataError(f"the chat template of '{folder.folder}': {error}") from None

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        with suppress(OSError):  # what was not written any more
            self._process.communicate()

    def marks(self, conversation: Conversation) -> bool:
        """Whether its template marks what the assistant generates, with `{% generation %}`."""
        return self._marks[self._template(conversation)]

    def render(self, conversation: Conversation, *, prompt: bool = False) -> Rendered:
        """The text of a conversation; `prompt`: with what comes before an answer that is to be generated. Raises
        ValueError, the end of a sentence, where the template refuses, fails, or goes beyond the bounds."""
        said = self._asked(
            {
                "template": self._template(conversation),
                "messages": [_without_nothing(one) for one in conversation.messages],
                "tools": conversation.tools,
                "prompt": prompt,
            }
        )
        return _rendered(said["text"])

    def _template(self, conversation: Conversation) -> str:
        return WITH_TOOLS if conversation.tools and WITH_TOOLS in self._folder.templates else DEFAULT

    def _asked(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            written = json.dumps(order).encode() + b"\n"
        except RecursionError:
            raise ValueError("its JSON is nested too deeply") from None
        with suppress(BrokenPipeError):  # it has ended: there is no reply either
            self._process.stdin.write(written)
            self._process.stdin.flush()
        line = self._process.stdout.readline(_MOST_REPLY)
        if not line.endswith(b"\n"):
            raise ValueError(self._ended())
        said: dict[str, Any] = json.loads(line)
        if "problem" in said:
            raise ValueError(self._said(said["problem"], said.get("detail", "")))
        return said

    def _ended(self) -> str:
        """Why there was no reply."""
        self._process.kill()
        code = self._process.wait()
        if code == -signal.SIGPROF:
            return f"the template takes more than {self._bounds.seconds} s of processor time"
        return f"the process that renders the template ended ({code}): it may need more memory than it is given"

    def _said(self, problem: str, detail: str) -> str:
        detail = "".join(one if one.isprintable() else " " for one in detail)
        return {
            "long": f"the template writes more than {self._bounds.characters} characters",
            "memory": f"the template takes more than {self._bounds.memory >> 20} MiB of memory",
            "syntax": f"it is no Jinja, {detail}",
            "refused": f"the template refuses the conversation: {detail}",
        }.get(problem, f"the template fails: {detail}")


def _check_library() -> None:
    try:
        found = metadata.version("jinja2")
    except metadata.PackageNotFoundError:
        found = "0"
    if tuple(int(part) for part in re.findall(r"\d+", found)[:3]) < _OLDEST:
        raise PockError("chat templates take jinja2 3.1.6 or newer: pip install 'pockengine[text]'")


def _check_read(variables: Mapping[str, Any], reads: list[str]) -> None:
    """ValueError for what conversations say, and for what no template reads: a name that was mistyped."""
    for name in variables:
        if name in _OWN:
            raise ValueError(f"'{name}' comes from each conversation and cannot be set")
        if name not in reads:
            known = ", ".join(sorted(set(reads) - _OWN))[:400] or "none"
            raise ValueError(f"it reads no variable '{name[:80]}'; those that it reads: {known}")


def _without_nothing(message: dict[str, Any]) -> dict[str, Any]:
    """Keys that hold null are left out: templates write it as text (`None`)."""
    return {key: value for key, value in message.items() if value is not None}


def _rendered(text: str) -> Rendered:
    """The text without the marks, which are where the template put them."""
    pieces, blocks, at, begin = [], [], 0, None
    for piece in re.split(f"([{BEGIN}{END}])", text):
        if piece == BEGIN:
            begin = at
        elif piece == END:
            if begin is not None and begin < at:
                blocks.append((begin, at))
            begin = None
        else:
            pieces.append(piece)
            at += len(piece)
    return Rendered("".join(pieces), tuple(blocks))
