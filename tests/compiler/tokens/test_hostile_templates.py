"""A template is a program of somebody else's: what it may take is bounded, and it reaches nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from pockengine.tokens import load_tokenizer
from pockengine.tokens.chat import Bounds, Chat, ChatFolder

from . import chats

LOOP = "{% for a in range(90000) %}{% for b in range(90000) %}{BODY}{% endfor %}{% endfor %}"
HOSTILE = {
    "a text that memory does not hold": ("{{ 'x' * 10**9 * messages | length }}", "takes more than 256 MiB of memory"),
    "the same, as the template is read": ("{{ 'x' * 10**9 }}", "takes more than 256 MiB of memory"),
    "a list that memory does not hold": ("{{ ([1] * 10**9 * messages | length) | length }}", "of memory"),
    "a long text": ("{{ 'x' * 10**6 * messages | length }}", "writes more than 100000 characters"),
    "loops that write": (LOOP.replace("{BODY}", "x"), "writes more than 100000 characters"),
    "loops that write nothing": (LOOP.replace("{BODY}", ""), "takes more than 1 s of processor time"),
    "a number without end": ("{{ (9 ** (9 ** 9) * messages | length) % 7 }}", "takes more than 1 s of processor time"),
    "a long range": ("{% for a in range(10**6) %}{% endfor %}", "the template fails: OverflowError: Range too big"),
    "macros that call themselves": ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "fails: RecursionError"),
    "Python's inside": ("{{ messages.__class__.__mro__[1].__subclasses__() }}", "the template fails: SecurityError"),
    "a namespace with a hidden name": ("{% set n = namespace(__class__=1) %}", "the template fails: SecurityError"),
    "a change of messages": ("{% set x = messages.append(1) %}", "the template fails: SecurityError"),
    "another file": ("{% include 'chat_template.jinja' %}", "the template fails: "),
    "keys of the terminal": ("{{ raise_exception('\\x1b[2J') }}", "refuses the conversation:  [2J"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_it_ends_with_one_error(name: str) -> None:
    template, reason = HOSTILE[name]
    folder = ChatFolder(Path("m"), {"default": template}, {})
    bounds = Bounds(seconds=1, characters=100_000, memory=256 << 20)
    with pytest.raises(Exception) as error, Chat(folder, load_tokenizer("bytes"), bounds=bounds) as chat:
        list(chat.documents({"messages": chats.TALK}))
    assert reason in str(error.value)
    assert "\x1b" not in str(error.value)


def test_a_mark_without_an_end_marks_nothing() -> None:
    template = "{{ '\ufdd0' }}ab{% generation %}c{% endgeneration %}d{{ '\ufdd1' }}e"
    with Chat(ChatFolder(Path("m"), {"default": template}, {}), load_tokenizer("bytes")) as chat:
        (document,) = chat.documents({"messages": chats.TALK})
    assert [(bytes(ids), learned) for ids, learned in document] == [(b"ab", False), (b"c", True), (b"de", False)]


def test_messages_nested_deeper_than_json_is_written_are_refused() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    folder = ChatFolder(Path("m"), {"default": chats.CHATML}, {})
    with Chat(folder, load_tokenizer("bytes")) as chat, pytest.raises(ValueError, match="nested too deeply"):
        list(chat.documents({"messages": [{"role": "user", "content": "a", "more": deep}]}))
