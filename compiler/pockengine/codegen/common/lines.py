"""A writer of lines with indentation, for languages with braces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class Lines:
    """Lines of text with the current indentation."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def line(self, text: str = "") -> None:
        """Append text, one or several lines, at the current indentation; preprocessor lines go to the margin."""
        for part in text.splitlines() or [""]:
            indent = "" if part.startswith("#") or not part else "    " * self._depth
            self._lines.append(indent + part)

    def lines(self, texts: Iterable[str]) -> None:
        """Append several lines."""
        for text in texts:
            self.line(text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """`header {` … `}`; a function's brace goes on its own line as its header ends with `)` at the margin."""
        if self._depth == 0:
            self.line(header)
            self.line("{")
        else:
            self.line(f"{header} {{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    def text(self) -> str:
        """All lines, each ended."""
        return "\n".join(self._lines) + "\n"
