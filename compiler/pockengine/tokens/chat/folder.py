"""What a model's folder says of chats: its templates, and the special tokens that they write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import DataError

DEFAULT, WITH_TOOLS = "default", "tool_use"
"""Names of templates: the one for every conversation, and the one for those with tools, where there is one."""
MOST_CONFIG = 16 << 20
"""Bytes of `tokenizer_config.json`, which lists thousands of added tokens."""
MOST_TEMPLATE = 256 << 10
"""Characters of a template."""
_CONFIG, _TEMPLATE, _MORE = "tokenizer_config.json", "chat_template.jinja", f"chat_templates/{WITH_TOOLS}.jinja"
_OLDER_TOKENS = "special_tokens_map.json"


@dataclass(frozen=True)
class ChatFolder:
    """Templates by name, of which `default` is one, and special tokens as templates call them (`bos_token`)."""

    folder: Path
    templates: Mapping[str, str]
    tokens: Mapping[str, str]


def read_chat_folder(folder: Path) -> ChatFolder:
    """Reads `chat_template.jinja`, else the `chat_template` of `tokenizer_config.json`, a text or a list of {name,
    template}; tokens are texts or have a `content`. Older folders, without a list of added tokens, have them in
    `special_tokens_map.json`. Raises DataError where there is no template, or a file is too large or malformed."""
    if not folder.is_dir():
        raise DataError(f"there is no folder '{folder}': --chat takes a model's folder with its chat template")
    config = _config(folder / _CONFIG)
    templates = _files(folder) or _listed(config.get("chat_template"), folder / _CONFIG)
    if not templates:
        raise DataError(
            f"'{folder}' has no chat template, neither {_TEMPLATE} nor 'chat_template' in {_CONFIG}: take the folder "
            f"of the model's chat variant, or write {_TEMPLATE}"
        )
    if DEFAULT not in templates:
        names = ", ".join(sorted(templates))[:200]
        raise DataError(
            f"'{folder}' has several chat templates and none is called '{DEFAULT}': {names}: write the one that is "
            f"meant into {_TEMPLATE}"
        )
    for name, text in templates.items():
        if len(text) > MOST_TEMPLATE:
            raise DataError(f"the chat template '{name[:80]}' of '{folder}' has more than {MOST_TEMPLATE} characters")
    wanted = {name: text for name, text in templates.items() if name in (DEFAULT, WITH_TOOLS)}
    older = {} if "added_tokens_decoder" in config else _config(folder / _OLDER_TOKENS)
    return ChatFolder(folder, wanted, _tokens(config) | _tokens(older))


def _files(folder: Path) -> dict[str, str]:
    """Templates that are files of their own."""
    paths = {DEFAULT: folder / _TEMPLATE, WITH_TOOLS: folder / _MORE}
    if not paths[DEFAULT].is_file():
        return {}
    return {name: _text(path, 4 * MOST_TEMPLATE) for name, path in paths.items() if path.is_file()}


def _config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        said = json.loads(_text(path, MOST_CONFIG))
    except (RecursionError, ValueError):
        raise DataError(f"'{path}' is not JSON, or it is truncated") from None
    if not isinstance(said, dict):
        raise DataError(f"'{path}' must be an object that describes a tokenizer")
    return said


def _text(path: Path, most: int) -> str:
    try:
        with path.open("rb") as opened:
            found = opened.read(most + 1)
        if len(found) > most:
            raise DataError(f"'{path}' has more than {most} bytes")
        return found.decode()
    except OSError as error:
        raise DataError(f"cannot read '{path}': {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"'{path}' is not UTF-8") from None


def _listed(said: Any, path: Path) -> dict[str, str]:
    if said is None:
        return {}
    entries = [{"name": DEFAULT, "template": said}] if isinstance(said, str) else said
    if not isinstance(entries, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) and isinstance(one.get("template"), str)
        for one in entries
    ):
        raise DataError(f"'chat_template' in '{path}' is a text, or a list of {{name, template}}")
    return {one["name"]: one["template"] for one in entries}


def _tokens(config: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for key, value in config.items():
        text = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(text, str):
            found[key] = text
    return found
