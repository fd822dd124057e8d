"""`pock run … generate`: a prompt's text as token ids, and the ids that come back as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import PockError

if TYPE_CHECKING:
    from ...tokens import Tokenizer

HELP = """\
pock run also takes  --prompt TEXT --tokenizer {bytes|tokenizer.json} [--begin ID]   in place of --prompt-tokens;
                     with a --tokenizer, what is generated is printed as text
"""
_OWN = ("--prompt", "--tokenizer", "--begin")


class Written:
    """What was generated so far, as what a person reads: text where there is a tokenizer, else ids."""

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._shown = ""

    def take(self, token: int) -> str:
        """Adds a token; what can be shown more. Half a letter waits for its other half."""
        self._ids.append(token)
        if self._tokenizer is None:
            return f"{token} "
        text = self._tokenizer.decode(self._ids)
        return "" if text.endswith("\ufffd") else self._more(text)

    def rest(self) -> str:
        """What waits, and the end of the line."""
        if not self._ids:
            return ""
        return ("" if self._tokenizer is None else self._more(self._tokenizer.decode(self._ids))) + "\n"

    def _more(self, text: str) -> str:
        new, self._shown = text[len(self._shown) :], text
        return new


def with_tokens(arguments: Sequence[str]) -> tuple[list[str], Written]:
    """The arguments that the program knows, a prompt's text as token ids. Raises PockError."""
    from ...tokens import load_tokenizer

    own, rest = _taken(arguments)
    tokenizer = load_tokenizer(own["--tokenizer"]) if "--tokenizer" in own else None
    if "--prompt" not in own:
        if "--begin" in own:
            raise PockError("--begin goes with --prompt: write the id into --prompt-tokens")
        return rest, Written(tokenizer)
    if tokenizer is None:
        raise PockError("--prompt needs a --tokenizer: bytes, or a tokenizer.json; or give --prompt-tokens 1,2,3")
    if "--prompt-tokens" in rest:
        raise PockError("--prompt and --prompt-tokens exclude each other")
    ids = [*_begin(own, tokenizer), *tokenizer.encode(own["--prompt"])]
    if not ids:
        raise PockError("the prompt has no token: give it a text, or say what begins it with --begin")
    return [*rest, "--prompt-tokens", ",".join(map(str, ids))], Written(tokenizer)


def _taken(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Our own options with their values, and all other arguments."""
    own, rest, waiting = dict[str, str](), list[str](), list(arguments)
    while waiting:
        name = waiting.pop(0)
        if name not in _OWN:
            rest.append(name)
        elif not waiting:
            raise PockError(f"{name} needs a value")
        else:
            own[name] = waiting.pop(0)
    return own, rest


def _begin(own: dict[str, str], tokenizer: Tokenizer) -> list[int]:
    from ...tokens import token_id

    return [token_id(own["--begin"], tokenizer, "--begin")] if "--begin" in own else []
