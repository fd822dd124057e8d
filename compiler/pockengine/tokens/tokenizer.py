"""Text as token ids and back: by the bytes of UTF-8, or by a `tokenizer.json` with the `tokenizers` library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..errors import DataError, PockError

BYTES = "bytes"
"""The tokenizer that needs no file: token i is the byte i."""


@dataclass(frozen=True)
class Encoded:
    """Token ids, and of each where what it stands for begins and ends in the text, in characters."""

    ids: list[int]
    extents: list[tuple[int, int]]


class Tokenizer(Protocol):
    """What turns text into token ids."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without any that mark its beginning or end."""

    def encode_with_extents(self, text: str) -> Encoded:
        """The same, with what each stands for. A letter of several tokens is the extent of each of them."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; what is no text becomes U+FFFD, ids without a text nothing."""

    def id_of(self, token: str) -> int | None:
        """The id of a token by its name, such as `</s>`."""


class _Bytes:
    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_with_extents(self, text: str) -> Encoded:
        extents = [(at, at + 1) for at, letter in enumerate(text) for _ in letter.encode()]
        return Encoded(self.encode(text), extents)

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(one for one in ids if one < 256).decode(errors="replace")

    def id_of(self, token: str) -> int | None:
        return None


class _FromFile:
    def __init__(self, made: Any) -> None:
        self._made = made
        made.no_truncation()  # a file may say so, for the use that its model had
        made.no_padding()

    def encode(self, text: str) -> list[int]:
        return list(self._encoding(text).ids)

    def encode_with_extents(self, text: str) -> Encoded:
        made = self._encoding(text)
        return Encoded(list(made.ids), list(made.offsets))

    def _encoding(self, text: str) -> Any:
        text.encode()  # half a surrogate pair is a ValueError here, a TypeError in the library
        return self._made.encode(text, add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._made.decode(list(ids), skip_special_tokens=True))

    def id_of(self, token: str) -> int | None:
        found = self._made.token_to_id(token)
        return None if found is None else int(found)


def load_tokenizer(name: str | Path) -> Tokenizer:
    """`bytes`, or a `tokenizer.json`. Raises PockError where the library is missing, DataError where the file is no
    tokenizer."""
    if str(name) == BYTES:
        return _Bytes()
    try:
        from tokenizers import Tokenizer as Library
    except ModuleNotFoundError:
        raise PockError(
            f"reading '{name}' takes the tokenizers library: pip install 'pockengine[text]', or give token ids"
        ) from None
    if not Path(name).is_file():
        raise DataError(f"there is no tokenizer '{name}': give a tokenizer.json, or '{BYTES}'")
    try:
        return _FromFile(Library.from_file(str(name)))
    except Exception as error:  # the library raises plain Exception, whatever is wrong
        raise DataError(f"'{name}' is no tokenizer.json: {error}") from None


def token_id(text: str, tokenizer: Tokenizer | None, option: str) -> int:
    """A token's id, said as a number or by its name. Raises PockError, which names the option."""
    if text.isascii() and text.isdigit():
        return int(text[:18])
    found = tokenizer.id_of(text) if tokenizer is not None else None
    if found is None:
        raise PockError(f"{option} is a token id, or the name of a token of --tokenizer, not '{text[:40]}'")
    return found
